// The native methods of io.harmonics.Native, each a call of the C interface.
#include <algorithm>
#include <cstring>

#include "jni_call.h"

using namespace harmonics::jni;

namespace {

/// Tells a io.harmonics.StepListener about every step.
struct JavaListener {
  JNIEnv* env;
  jobject listener;
  jmethodID on_step;
  jthrowable thrown = nullptr;

  static int call(void* context, const char* report) {
    auto& self = *static_cast<JavaListener*>(context);
    jbyteArray bytes = bytes_of(self.env, report, std::strlen(report));
    const jboolean go_on = self.env->CallBooleanMethod(self.listener, self.on_step, bytes);
    self.env->DeleteLocalRef(bytes);
    if (self.env->ExceptionCheck()) {
      self.thrown = self.env->ExceptionOccurred();
      self.env->ExceptionClear();
      return 1;
    }
    return go_on == JNI_TRUE ? 0 : 1;
  }
};

/// The order and the ends of a sum over replicas, on their way to the C interface.
class ReplicaArguments {
 public:
  ReplicaArguments(JNIEnv* env, jbyteArray order, jintArray peers, jlongArray ends)
      : order_(text(env, order)), peers_(static_cast<std::size_t>(env->GetArrayLength(peers))) {
    env->GetIntArrayRegion(peers, 0, static_cast<jsize>(peers_.size()), peers_.data());
    for (const std::int64_t end : numbers(env, ends)) ends_.push_back(object<hm_end>(end));
  }
  [[nodiscard]] hm_replicas as(jint rank, jint ranks) const {
    return {order_.c_str(), rank, ranks, peers_.data(), ends_.data(), ends_.size()};
  }

 private:
  std::string order_;
  std::vector<std::int32_t> peers_;
  std::vector<hm_end*> ends_;
};

}  // namespace

HARMONICS_NATIVE(jbyteArray, version)(JNIEnv* env, jclass) {
  return bytes_of(env, hm_version(), std::strlen(hm_version()));
}

HARMONICS_NATIVE(jlong, graphLoad)(JNIEnv* env, jclass, jbyteArray path) {
  hm_graph* graph = nullptr;
  const int code = hm_graph_load(text(env, path).c_str(), &graph);
  return made(env, code, graph);
}

HARMONICS_NATIVE(jlong, graphParse)(JNIEnv* env, jclass, jbyteArray source) {
  hm_graph* graph = nullptr;
  const int code = hm_graph_parse(text(env, source).c_str(), &graph);
  return made(env, code, graph);
}

HARMONICS_NATIVE(jlong, graphZoo)(JNIEnv* env, jclass, jbyteArray name) {
  hm_graph* graph = nullptr;
  const int code = hm_graph_zoo(text(env, name).c_str(), &graph);
  return made(env, code, graph);
}

HARMONICS_NATIVE(jlong, graphDecode)(JNIEnv* env, jclass, jbyteArray blob) {
  const std::string bytes = text(env, blob);
  hm_graph* graph = nullptr;
  const int code = hm_graph_decode(bytes.data(), bytes.size(), &graph);
  return made(env, code, graph);
}

HARMONICS_NATIVE(jbyteArray, graphEncode)(JNIEnv* env, jclass, jlong graph) {
  void* bytes = nullptr;
  std::uint64_t size = 0;
  if (!good(env, hm_graph_encode(object<hm_graph>(graph), &bytes, &size))) return nullptr;
  jbyteArray encoded = bytes_of(env, bytes, size);
  hm_free(bytes);
  return encoded;
}

HARMONICS_NATIVE(jlong, graphResolve)
(JNIEnv* env, jclass, jlong graph, jobjectArray names, jlongArray producers) {
  const std::vector<std::string> owned = texts(env, names);
  std::vector<hm_producer*> sources;
  for (const std::int64_t each : numbers(env, producers)) {
    sources.push_back(object<hm_producer>(each));
  }
  hm_graph* resolved = nullptr;
  const int code = hm_graph_resolve(object<hm_graph>(graph), pointers(owned).data(), sources.data(),
                                    owned.size(), &resolved);
  return made(env, code, resolved);
}

HARMONICS_NATIVE(jlongArray, graphPartition)(JNIEnv* env, jclass, jlong graph, jint count) {
  std::vector<hm_graph*> parts(static_cast<std::size_t>(std::max<jint>(count, 0)));
  if (!good(env, hm_graph_partition(object<hm_graph>(graph), parts.size(), parts.data()))) {
    return nullptr;
  }
  std::vector<std::int64_t> handles;
  for (hm_graph* part : parts) handles.push_back(handle(part));
  return numbers_of(env, handles.data(), handles.size());
}

HARMONICS_NATIVE(jbyteArray, graphDescribe)(JNIEnv* env, jclass, jlong graph) {
  char* json = nullptr;
  return good(env, hm_graph_describe(object<hm_graph>(graph), &json)) ? taken_text(env, json)
                                                                      : nullptr;
}

HARMONICS_NATIVE(void, graphFree)(JNIEnv*, jclass, jlong graph) {
  hm_graph_free(object<hm_graph>(graph));
}

HARMONICS_NATIVE(jlong, runtimeNew)(JNIEnv* env, jclass, jlong graph, jbyteArray settings) {
  hm_engine* engine = nullptr;
  const int code = hm_runtime_new(object<hm_graph>(graph), text(env, settings).c_str(), &engine);
  return made(env, code, engine);
}

HARMONICS_NATIVE(jlong, distributedNew)
(JNIEnv* env, jclass, jlongArray parts, jbyteArray settings) {
  std::vector<const hm_graph*> graphs;
  for (const std::int64_t part : numbers(env, parts)) graphs.push_back(object<hm_graph>(part));
  hm_engine* engine = nullptr;
  const int code =
      hm_distributed_new(graphs.data(), graphs.size(), text(env, settings).c_str(), &engine);
  return made(env, code, engine);
}

HARMONICS_NATIVE(jlong, remoteNew)
(JNIEnv* env, jclass, jlong part, jobjectArray producers, jobjectArray consumers,
 jbyteArray settings) {
  const std::vector<std::string> entering = texts(env, producers), leaving = texts(env, consumers);
  const std::vector<const char*> enter = pointers(entering), leave = pointers(leaving);
  const hm_endpoints endpoints = {enter.data(), enter.size(), leave.data(), leave.size()};
  hm_engine* engine = nullptr;
  const int code =
      hm_remote_new(object<hm_graph>(part), &endpoints, text(env, settings).c_str(), &engine);
  return made(env, code, engine);
}

HARMONICS_NATIVE(void, engineBindProducer)
(JNIEnv* env, jclass, jlong engine, jbyteArray name, jlong producer) {
  good(env, hm_engine_bind_producer(object<hm_engine>(engine), text(env, name).c_str(),
                                    object<hm_producer>(producer)));
}

HARMONICS_NATIVE(void, engineBindConsumer)
(JNIEnv* env, jclass, jlong engine, jbyteArray name, jlong consumer) {
  good(env, hm_engine_bind_consumer(object<hm_engine>(engine), text(env, name).c_str(),
                                    object<hm_consumer>(consumer)));
}

HARMONICS_NATIVE(void, engineBindEnd)
(JNIEnv* env, jclass, jlong engine, jbyteArray boundary, jboolean entering, jlong end) {
  good(env, hm_engine_bind_end(object<hm_engine>(engine), text(env, boundary).c_str(), entering,
                               object<hm_end>(end)));
}

HARMONICS_NATIVE(void, engineJoinReplicas)
(JNIEnv* env, jclass, jlong engine, jbyteArray order, jint rank, jint ranks, jintArray peers,
 jlongArray ends) {
  const ReplicaArguments replicas(env, order, peers, ends);
  const hm_replicas joined = replicas.as(rank, ranks);
  good(env, hm_engine_join_replicas(object<hm_engine>(engine), &joined));
}

HARMONICS_NATIVE(jlong, reducerNew)
(JNIEnv* env, jclass, jbyteArray order, jint rank, jint ranks, jintArray peers, jlongArray ends) {
  const ReplicaArguments replicas(env, order, peers, ends);
  const hm_replicas joined = replicas.as(rank, ranks);
  hm_reducer* reducer = nullptr;
  const int code = hm_reducer_new(&joined, &reducer);
  return made(env, code, reducer);
}

HARMONICS_NATIVE(jlong, reducerSum)
(JNIEnv* env, jclass, jlong reducer, jobjectArray names, jobjectArray dtypes, jobjectArray shapes,
 jobjectArray buffers, jlong step) {
  const TensorArguments own(env, names, dtypes, shapes, buffers);
  hm_tensors* sums = nullptr;
  const int code = hm_reducer_sum(object<hm_reducer>(reducer), own.data(), own.size(),
                                  static_cast<std::uint64_t>(step), &sums);
  return made(env, code, sums);
}

HARMONICS_NATIVE(void, reducerFree)(JNIEnv*, jclass, jlong reducer) {
  hm_reducer_free(object<hm_reducer>(reducer));
}

HARMONICS_NATIVE(jintArray, reductionPeers)
(JNIEnv* env, jclass, jbyteArray order, jint rank, jint ranks) {
  std::vector<std::int32_t> peers(static_cast<std::size_t>(std::max<jint>(ranks, 0)));
  std::size_t count = 0;
  if (!good(env, hm_reduction_peers(text(env, order).c_str(), rank, ranks, peers.data(), &count))) {
    return nullptr;
  }
  jintArray made = env->NewIntArray(static_cast<jsize>(count));
  if (made != nullptr) {
    env->SetIntArrayRegion(made, 0, static_cast<jsize>(count), peers.data());
  }
  return made;
}

HARMONICS_NATIVE(jbyteArray, engineStep)(JNIEnv* env, jclass, jlong engine) {
  char* report = nullptr;
  return good(env, hm_engine_step(object<hm_engine>(engine), &report)) ? taken_text(env, report)
                                                                       : nullptr;
}

HARMONICS_NATIVE(jbyteArray, engineFit)
(JNIEnv* env, jclass, jlong engine, jlong epochs, jbyteArray options, jobject listener) {
  JavaListener told{env, listener, nullptr};
  if (listener != nullptr) {
    told.on_step = env->GetMethodID(env->GetObjectClass(listener), "onStep", "([B)Z");
  }
  const std::string json = text(env, options);
  const hm_fit fit = {epochs, json.c_str(), listener == nullptr ? nullptr : JavaListener::call,
                      &told};
  char* report = nullptr;
  const int code = hm_engine_fit(object<hm_engine>(engine), &fit, &report);
  if (told.thrown != nullptr) {
    hm_free(report);
    env->Throw(told.thrown);
    return nullptr;
  }
  return good(env, code) ? taken_text(env, report) : nullptr;
}

HARMONICS_NATIVE(jlong, engineInfer)
(JNIEnv* env, jclass, jlong engine, jobjectArray names, jobjectArray dtypes, jobjectArray shapes,
 jobjectArray buffers) {
  const TensorArguments inputs(env, names, dtypes, shapes, buffers);
  hm_tensors* outputs = nullptr;
  const int code =
      hm_engine_infer(object<hm_engine>(engine), inputs.data(), inputs.size(), &outputs);
  return made(env, code, outputs);
}

HARMONICS_NATIVE(void, engineSave)(JNIEnv* env, jclass, jlong engine, jbyteArray path) {
  good(env, hm_engine_save(object<hm_engine>(engine), text(env, path).c_str()));
}

HARMONICS_NATIVE(void, engineLoad)(JNIEnv* env, jclass, jlong engine, jbyteArray path) {
  good(env, hm_engine_load(object<hm_engine>(engine), text(env, path).c_str()));
}

HARMONICS_NATIVE(jboolean, engineResume)(JNIEnv* env, jclass, jlong engine, jbyteArray path) {
  int resumed = 0;
  good(env, hm_engine_resume(object<hm_engine>(engine), text(env, path).c_str(), &resumed));
  return resumed != 0 ? JNI_TRUE : JNI_FALSE;
}

HARMONICS_NATIVE(void, engineLoadWeights)(JNIEnv* env, jclass, jlong engine, jbyteArray path) {
  good(env, hm_engine_load_weights(object<hm_engine>(engine), text(env, path).c_str()));
}

HARMONICS_NATIVE(jlong, engineParameters)(JNIEnv* env, jclass, jlong engine) {
  hm_tensors* tensors = nullptr;
  const int code = hm_engine_parameters(object<hm_engine>(engine), &tensors);
  return made(env, code, tensors);
}

HARMONICS_NATIVE(jbyteArray, engineDigest)(JNIEnv* env, jclass, jlong engine) {
  char* digest = nullptr;
  return good(env, hm_engine_digest(object<hm_engine>(engine), &digest)) ? taken_text(env, digest)
                                                                         : nullptr;
}

HARMONICS_NATIVE(jbyteArray, engineProgress)(JNIEnv* env, jclass, jlong engine) {
  char* json = nullptr;
  return good(env, hm_engine_progress(object<hm_engine>(engine), &json)) ? taken_text(env, json)
                                                                         : nullptr;
}

HARMONICS_NATIVE(void, engineStop)(JNIEnv* env, jclass, jlong engine) {
  good(env, hm_engine_stop(object<hm_engine>(engine)));
}

HARMONICS_NATIVE(jlongArray, engineSteps)(JNIEnv* env, jclass, jlong engine) {
  std::int64_t steps[2] = {};
  if (!good(env, hm_engine_steps(object<hm_engine>(engine), &steps[0], &steps[1]))) return nullptr;
  return numbers_of(env, steps, 2);
}

HARMONICS_NATIVE(jbyteArray, engineTraffic)(JNIEnv* env, jclass, jlong engine) {
  char* json = nullptr;
  return good(env, hm_engine_traffic(object<hm_engine>(engine), &json)) ? taken_text(env, json)
                                                                        : nullptr;
}

HARMONICS_NATIVE(void, engineSeal)(JNIEnv* env, jclass, jlong engine) {
  good(env, hm_engine_seal(object<hm_engine>(engine)));
}

HARMONICS_NATIVE(jbyteArray, engineProof)(JNIEnv* env, jclass, jlong engine) {
  char* lines = nullptr;
  return good(env, hm_engine_proof(object<hm_engine>(engine), &lines)) ? taken_text(env, lines)
                                                                       : nullptr;
}

HARMONICS_NATIVE(void, engineFree)(JNIEnv*, jclass, jlong engine) {
  hm_engine_free(object<hm_engine>(engine));
}
