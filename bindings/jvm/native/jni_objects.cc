// The native methods of io.harmonics.Native, each a call of the C interface.
#include <algorithm>
#include <cstring>

#include "jni_call.h"

using namespace harmonics::jni;

namespace {

template <typename Object>
jlong made(JNIEnv* env, int code, Object* object) {
  return good(env, code) ? handle(object) : 0;
}

/// Samples that a io.harmonics.RowReader makes.
class JavaRows {
 public:
  JavaRows(JNIEnv* env, jobject reader) : reader_(env, reader) {
    read_ = env->GetMethodID(env->GetObjectClass(reader), "read", "([JLjava/nio/ByteBuffer;)V");
  }

  static int read(void* context, const hm_row_request* request) {
    const auto& self = *static_cast<JavaRows*>(context);
    JNIEnv* env = self.reader_.environment();
    if (env == nullptr || env->PushLocalFrame(16) != 0) return 1;
    jobject buffer = env->NewDirectByteBuffer(request->out, static_cast<jlong>(request->size));
    env->CallVoidMethod(self.reader_.get(), self.read_,
                        numbers_of(env, request->rows, static_cast<std::size_t>(request->count)),
                        buffer);
    const bool failed = env->ExceptionCheck();
    const std::string message = take_exception(env);
    env->PopLocalFrame(nullptr);
    std::strncpy(request->error, message.c_str(), request->error_size - 1);
    return failed ? 1 : 0;
  }
  static void release(void* context) { delete static_cast<JavaRows*>(context); }

 private:
  Kept reader_;
  jmethodID read_;
};

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

HARMONICS_NATIVE(jlong, producerCsv)(JNIEnv* env, jclass, jbyteArray path) {
  hm_producer* producer = nullptr;
  const int code = hm_producer_csv(text(env, path).c_str(), &producer);
  return made(env, code, producer);
}

HARMONICS_NATIVE(jlong, producerOpen)
(JNIEnv* env, jclass, jbyteArray source, jbyteArray folder) {
  hm_producer* producer = nullptr;
  const int code =
      hm_producer_open(text(env, source).c_str(), text(env, folder).c_str(), &producer);
  return made(env, code, producer);
}

HARMONICS_NATIVE(jlong, producerRows)
(JNIEnv* env, jclass, jbyteArray dtype, jlongArray shape, jlong rows, jobject reader) {
  const std::vector<std::int64_t> axes = numbers(env, shape);
  const std::string type = text(env, dtype);
  const hm_rows samples = {type.c_str(),
                           axes.data(),
                           static_cast<std::int32_t>(axes.size()),
                           rows,
                           JavaRows::read,
                           JavaRows::release,
                           new JavaRows(env, reader)};
  hm_producer* producer = nullptr;
  const int code = hm_producer_rows(&samples, &producer);
  return made(env, code, producer);
}

HARMONICS_NATIVE(jlong, producerShuffle)(JNIEnv* env, jclass, jlong source) {
  hm_producer* producer = nullptr;
  const int code = hm_producer_shuffle(object<hm_producer>(source), &producer);
  return made(env, code, producer);
}

HARMONICS_NATIVE(jlong, producerBatch)(JNIEnv* env, jclass, jlong source, jlong size) {
  hm_producer* producer = nullptr;
  const int code = hm_producer_batch(object<hm_producer>(source), size, &producer);
  return made(env, code, producer);
}

HARMONICS_NATIVE(jlong, producerStride)
(JNIEnv* env, jclass, jlong source, jlong first, jlong count) {
  hm_producer* producer = nullptr;
  const int code = hm_producer_stride(object<hm_producer>(source), first, count, &producer);
  return made(env, code, producer);
}

HARMONICS_NATIVE(jlong, producerSamples)(JNIEnv* env, jclass, jlong producer) {
  std::int64_t samples = 0;
  good(env, hm_producer_samples(object<hm_producer>(producer), &samples));
  return samples;
}

HARMONICS_NATIVE(void, producerFree)(JNIEnv*, jclass, jlong producer) {
  hm_producer_free(object<hm_producer>(producer));
}

HARMONICS_NATIVE(jlong, consumerMemory)(JNIEnv* env, jclass) {
  hm_consumer* consumer = nullptr;
  const int code = hm_consumer_memory(&consumer);
  return made(env, code, consumer);
}

HARMONICS_NATIVE(jlong, consumerTake)(JNIEnv* env, jclass, jlong consumer) {
  hm_tensors* tensors = nullptr;
  const int code = hm_consumer_take(object<hm_consumer>(consumer), &tensors);
  return made(env, code, tensors);
}

HARMONICS_NATIVE(void, consumerFree)(JNIEnv*, jclass, jlong consumer) {
  hm_consumer_free(object<hm_consumer>(consumer));
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
  const std::string name = text(env, order);
  std::vector<std::int32_t> others(static_cast<std::size_t>(env->GetArrayLength(peers)));
  env->GetIntArrayRegion(peers, 0, static_cast<jsize>(others.size()), others.data());
  std::vector<hm_end*> owned;
  for (const std::int64_t end : numbers(env, ends)) owned.push_back(object<hm_end>(end));
  const hm_replicas replicas = {name.c_str(),  rank,         ranks,
                                others.data(), owned.data(), owned.size()};
  good(env, hm_engine_join_replicas(object<hm_engine>(engine), &replicas));
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

HARMONICS_NATIVE(void, engineFree)(JNIEnv*, jclass, jlong engine) {
  hm_engine_free(object<hm_engine>(engine));
}
