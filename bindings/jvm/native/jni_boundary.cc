// The native methods of io.harmonics.Native about boundaries and tensors.
#include <cstring>

#include "jni_call.h"

using namespace harmonics::jni;

HARMONICS_NATIVE(jlong, endOpen)(JNIEnv* env, jclass, jbyteArray url, jbyteArray settings) {
  hm_end* end = nullptr;
  return good(env, hm_end_open(text(env, url).c_str(), text(env, settings).c_str(), &end))
             ? handle(end)
             : 0;
}

HARMONICS_NATIVE(jlong, busOpen)(JNIEnv* env, jclass, jbyteArray name) {
  hm_end* end = nullptr;
  return good(env, hm_bus_open(text(env, name).c_str(), &end)) ? handle(end) : 0;
}

HARMONICS_NATIVE(void, endSend)
(JNIEnv* env, jclass, jlong end, jobjectArray names, jobjectArray dtypes, jobjectArray shapes,
 jobjectArray buffers, jlong step, jlong timeout_ms) {
  const TensorArguments tensor(env, names, dtypes, shapes, buffers);
  good(env, hm_end_send(object<hm_end>(end), tensor.data(), static_cast<std::uint64_t>(step),
                        timeout_ms));
}

HARMONICS_NATIVE(jlong, endReceive)
(JNIEnv* env, jclass, jlong end, jlong timeout_ms, jlongArray step) {
  hm_tensors* tensors = nullptr;
  std::uint64_t number = 0;
  if (!good(env, hm_end_receive(object<hm_end>(end), timeout_ms, &number, &tensors))) return 0;
  const auto signed_number = static_cast<jlong>(number);
  env->SetLongArrayRegion(step, 0, 1, &signed_number);
  return handle(tensors);
}

HARMONICS_NATIVE(void, endClose)(JNIEnv* env, jclass, jlong end, jlong timeout_ms) {
  good(env, hm_end_close(object<hm_end>(end), timeout_ms));
}

HARMONICS_NATIVE(jbyteArray, endStats)(JNIEnv* env, jclass, jlong end) {
  char* json = nullptr;
  return good(env, hm_end_stats(object<hm_end>(end), &json)) ? taken_text(env, json) : nullptr;
}

HARMONICS_NATIVE(jint, endPort)(JNIEnv* env, jclass, jlong end) {
  std::int32_t port = 0;
  good(env, hm_end_port(object<hm_end>(end), &port));
  return port;
}

HARMONICS_NATIVE(void, endFree)(JNIEnv*, jclass, jlong end) { hm_end_free(object<hm_end>(end)); }

HARMONICS_NATIVE(jbyteArray, weightsDigest)
(JNIEnv* env, jclass, jobjectArray names, jobjectArray dtypes, jobjectArray shapes,
 jobjectArray buffers) {
  const TensorArguments weights(env, names, dtypes, shapes, buffers);
  char* digest = nullptr;
  return good(env, hm_weights_digest(weights.data(), weights.size(), &digest))
             ? taken_text(env, digest)
             : nullptr;
}

HARMONICS_NATIVE(void, weightsSave)
(JNIEnv* env, jclass, jbyteArray path, jobjectArray names, jobjectArray dtypes, jobjectArray shapes,
 jobjectArray buffers) {
  const TensorArguments weights(env, names, dtypes, shapes, buffers);
  good(env, hm_weights_save(text(env, path).c_str(), weights.data(), weights.size()));
}

HARMONICS_NATIVE(jlong, weightsLoad)(JNIEnv* env, jclass, jbyteArray path) {
  hm_tensors* out = nullptr;
  good(env, hm_weights_load(text(env, path).c_str(), &out));
  return handle(out);
}

HARMONICS_NATIVE(jlong, tensorsEmpty)
(JNIEnv* env, jclass, jbyteArray name, jbyteArray dtype, jlongArray shape) {
  const std::vector<std::int64_t> axes = numbers(env, shape);
  hm_tensors* tensors = nullptr;
  const int code = hm_tensors_empty(text(env, name).c_str(), text(env, dtype).c_str(), axes.data(),
                                    static_cast<std::int32_t>(axes.size()), &tensors);
  return made(env, code, tensors);
}

HARMONICS_NATIVE(jint, tensorsCount)(JNIEnv*, jclass, jlong tensors) {
  return static_cast<jint>(hm_tensors_count(object<hm_tensors>(tensors)));
}

HARMONICS_NATIVE(jbyteArray, tensorName)(JNIEnv* env, jclass, jlong tensors, jint index) {
  const hm_tensor view =
      hm_tensors_at(object<hm_tensors>(tensors), static_cast<std::size_t>(index));
  return bytes_of(env, view.name, std::strlen(view.name));
}

HARMONICS_NATIVE(jbyteArray, tensorDtype)(JNIEnv* env, jclass, jlong tensors, jint index) {
  const hm_tensor view =
      hm_tensors_at(object<hm_tensors>(tensors), static_cast<std::size_t>(index));
  return bytes_of(env, view.dtype, std::strlen(view.dtype));
}

HARMONICS_NATIVE(jlongArray, tensorShape)(JNIEnv* env, jclass, jlong tensors, jint index) {
  const hm_tensor view =
      hm_tensors_at(object<hm_tensors>(tensors), static_cast<std::size_t>(index));
  return numbers_of(env, view.shape, static_cast<std::size_t>(view.rank));
}

HARMONICS_NATIVE(jobject, tensorData)(JNIEnv* env, jclass, jlong tensors, jint index) {
  const hm_tensor view =
      hm_tensors_at(object<hm_tensors>(tensors), static_cast<std::size_t>(index));
  return env->NewDirectByteBuffer(view.data, static_cast<jlong>(view.size));
}

HARMONICS_NATIVE(void, tensorsFree)(JNIEnv*, jclass, jlong tensors) {
  hm_tensors_free(object<hm_tensors>(tensors));
}
