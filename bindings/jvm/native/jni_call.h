// What the files of the JNI library share: texts, arrays and exceptions between Java and the C
// interface. Texts cross as UTF-8 bytes, since JNI's own strings are not quite UTF-8.
#pragma once

#include <jni.h>

#include <string>
#include <vector>

#include <harmonics_c.h>

namespace harmonics::jni {

/// Marks a pending HarmonicsException with the last error's text unless `code` is 0.
/// True when all is well.
bool good(JNIEnv* env, int code);

[[nodiscard]] std::string text(JNIEnv* env, jbyteArray bytes);
[[nodiscard]] std::vector<std::string> texts(JNIEnv* env, jobjectArray list);
[[nodiscard]] std::vector<const char*> pointers(const std::vector<std::string>& list);
[[nodiscard]] std::vector<std::int64_t> numbers(JNIEnv* env, jlongArray list);
[[nodiscard]] jbyteArray bytes_of(JNIEnv* env, const void* data, std::size_t size);
[[nodiscard]] jlongArray numbers_of(JNIEnv* env, const std::int64_t* data, std::size_t size);
/// The bytes of a text that the C interface handed out, which is freed.
[[nodiscard]] jbyteArray taken_text(JNIEnv* env, char* text);

template <typename Object>
[[nodiscard]] Object* object(jlong handle) {
  return reinterpret_cast<Object*>(handle);
}
template <typename Object>
[[nodiscard]] jlong handle(Object* object) {
  return reinterpret_cast<jlong>(object);
}

/// The handle of what the C interface made, or 0 with the exception pending.
template <typename Object>
[[nodiscard]] jlong made(JNIEnv* env, int code, Object* object) {
  return good(env, code) ? handle(object) : 0;
}

/// A Java object that native code keeps; any thread may use and destroy it.
class Kept {
 public:
  Kept(JNIEnv* env, jobject object);
  ~Kept();
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  [[nodiscard]] jobject get() const { return object_; }
  /// The environment of the calling thread, which joins the Java machine if it has not yet.
  [[nodiscard]] JNIEnv* environment() const;

 private:
  JavaVM* machine_ = nullptr;
  jobject object_ = nullptr;
};

/// The message of the pending exception, which is cleared; "" when there is none.
[[nodiscard]] std::string take_exception(JNIEnv* env);

/// Tensors that go in: direct byte buffers, used in place and kept until nobody needs them.
class TensorArguments {
 public:
  TensorArguments(JNIEnv* env, jobjectArray names, jobjectArray dtypes, jobjectArray shapes,
                  jobjectArray buffers);
  /// To be handed to the C interface once: it releases them.
  [[nodiscard]] const hm_tensor* data() const { return tensors_.data(); }
  [[nodiscard]] std::size_t size() const { return tensors_.size(); }

 private:
  std::vector<std::string> names_, dtypes_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<hm_tensor> tensors_;
};

}  // namespace harmonics::jni

/// Names a native method of io.harmonics.Native.
#define HARMONICS_NATIVE(type, method) \
  extern "C" JNIEXPORT type JNICALL Java_io_harmonics_Native_##method
