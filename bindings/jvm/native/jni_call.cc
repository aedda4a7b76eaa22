#include "jni_call.h"

namespace harmonics::jni {

bool good(JNIEnv* env, int code) {
  if (code == 0) return true;
  jclass type = env->FindClass("io/harmonics/HarmonicsException");
  if (type == nullptr) return false;
  const jmethodID make = env->GetMethodID(type, "<init>", "(I[B)V");
  const std::string message = hm_last_error();
  jobject exception =
      env->NewObject(type, make, code, bytes_of(env, message.data(), message.size()));
  if (exception != nullptr) env->Throw(static_cast<jthrowable>(exception));
  return false;
}

std::string text(JNIEnv* env, jbyteArray bytes) {
  if (bytes == nullptr) return {};
  std::string made(static_cast<std::size_t>(env->GetArrayLength(bytes)), '\0');
  env->GetByteArrayRegion(bytes, 0, static_cast<jsize>(made.size()),
                          reinterpret_cast<jbyte*>(made.data()));
  return made;
}

std::vector<std::string> texts(JNIEnv* env, jobjectArray list) {
  std::vector<std::string> made;
  const jsize count = env->GetArrayLength(list);
  for (jsize i = 0; i < count; ++i) {
    auto* bytes = static_cast<jbyteArray>(env->GetObjectArrayElement(list, i));
    made.push_back(text(env, bytes));
    env->DeleteLocalRef(bytes);
  }
  return made;
}

std::vector<const char*> pointers(const std::vector<std::string>& list) {
  std::vector<const char*> made;
  made.reserve(list.size());
  for (const std::string& each : list) made.push_back(each.c_str());
  return made;
}

std::vector<std::int64_t> numbers(JNIEnv* env, jlongArray list) {
  std::vector<std::int64_t> made(static_cast<std::size_t>(env->GetArrayLength(list)));
  env->GetLongArrayRegion(list, 0, static_cast<jsize>(made.size()),
                          reinterpret_cast<jlong*>(made.data()));
  return made;
}

jbyteArray bytes_of(JNIEnv* env, const void* data, std::size_t size) {
  jbyteArray made = env->NewByteArray(static_cast<jsize>(size));
  if (made != nullptr) {
    env->SetByteArrayRegion(made, 0, static_cast<jsize>(size), static_cast<const jbyte*>(data));
  }
  return made;
}

jlongArray numbers_of(JNIEnv* env, const std::int64_t* data, std::size_t size) {
  jlongArray made = env->NewLongArray(static_cast<jsize>(size));
  if (made != nullptr) {
    env->SetLongArrayRegion(made, 0, static_cast<jsize>(size),
                            reinterpret_cast<const jlong*>(data));
  }
  return made;
}

jbyteArray taken_text(JNIEnv* env, char* text) {
  const std::string copy = text;
  hm_free(text);
  return bytes_of(env, copy.data(), copy.size());
}

Kept::Kept(JNIEnv* env, jobject object) : object_(env->NewGlobalRef(object)) {
  env->GetJavaVM(&machine_);
}

Kept::~Kept() {
  if (JNIEnv* env = environment()) env->DeleteGlobalRef(object_);
}

JNIEnv* Kept::environment() const {
  void* env = nullptr;
  if (machine_->GetEnv(&env, JNI_VERSION_10) == JNI_OK) return static_cast<JNIEnv*>(env);
  // As a daemon: a native thread must not keep the Java machine from ending.
  return machine_->AttachCurrentThreadAsDaemon(&env, nullptr) == JNI_OK ? static_cast<JNIEnv*>(env)
                                                                        : nullptr;
}

std::string take_exception(JNIEnv* env) {
  jthrowable thrown = env->ExceptionOccurred();
  if (thrown == nullptr) return {};
  env->ExceptionClear();
  jclass native = env->FindClass("io/harmonics/Native");
  const jmethodID describe =
      native == nullptr ? nullptr
                        : env->GetStaticMethodID(native, "describe", "(Ljava/lang/Throwable;)[B");
  if (describe == nullptr) {
    env->ExceptionClear();
    return "an exception in Java code";
  }
  auto* bytes = static_cast<jbyteArray>(env->CallStaticObjectMethod(native, describe, thrown));
  return text(env, bytes);
}

TensorArguments::TensorArguments(JNIEnv* env, jobjectArray names, jobjectArray dtypes,
                                 jobjectArray shapes, jobjectArray buffers)
    : names_(texts(env, names)), dtypes_(texts(env, dtypes)) {
  const jsize count = env->GetArrayLength(buffers);
  for (jsize i = 0; i < count; ++i) {
    auto* shape = static_cast<jlongArray>(env->GetObjectArrayElement(shapes, i));
    shapes_.push_back(numbers(env, shape));
    env->DeleteLocalRef(shape);
  }
  for (jsize i = 0; i < count; ++i) {
    jobject buffer = env->GetObjectArrayElement(buffers, i);
    hm_tensor tensor = {};
    tensor.name = names_[static_cast<std::size_t>(i)].c_str();
    tensor.dtype = dtypes_[static_cast<std::size_t>(i)].c_str();
    tensor.rank = static_cast<std::int32_t>(shapes_[static_cast<std::size_t>(i)].size());
    tensor.shape = shapes_[static_cast<std::size_t>(i)].data();
    tensor.data = env->GetDirectBufferAddress(buffer);
    tensor.size = static_cast<std::uint64_t>(env->GetDirectBufferCapacity(buffer));
    tensor.owner = new Kept(env, buffer);
    tensor.release = [](void* owner) { delete static_cast<Kept*>(owner); };
    tensors_.push_back(tensor);
    env->DeleteLocalRef(buffer);
  }
}

}  // namespace harmonics::jni
