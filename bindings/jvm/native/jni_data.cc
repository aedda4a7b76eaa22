// The native methods of io.harmonics.Native about data.
#include <cstring>

#include "jni_call.h"

using namespace harmonics::jni;

namespace {

/// Ends a call of Java code: 0, or 1 with the words of the exception that it threw.
int answer(JNIEnv* env, char* error, std::size_t error_size) {
  const bool failed = env->ExceptionCheck();
  const std::string message = take_exception(env);
  env->PopLocalFrame(nullptr);
  std::strncpy(error, message.c_str(), error_size - 1);
  return failed ? 1 : 0;
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
    return answer(env, request->error, request->error_size);
  }
  static void release(void* context) { delete static_cast<JavaRows*>(context); }

 private:
  Kept reader_;
  jmethodID read_;
};

/// A file that a io.harmonics.ByteReader reads.
class JavaBytes {
 public:
  JavaBytes(JNIEnv* env, jobject reader) : reader_(env, reader) {
    read_ = env->GetMethodID(env->GetObjectClass(reader), "read", "(JLjava/nio/ByteBuffer;)V");
  }

  static int read(void* context, const hm_byte_request* request) {
    const auto& self = *static_cast<JavaBytes*>(context);
    JNIEnv* env = self.reader_.environment();
    if (env == nullptr || env->PushLocalFrame(16) != 0) return 1;
    jobject buffer = env->NewDirectByteBuffer(request->out, static_cast<jlong>(request->size));
    env->CallVoidMethod(self.reader_.get(), self.read_, static_cast<jlong>(request->offset),
                        buffer);
    return answer(env, request->error, request->error_size);
  }
  static void release(void* context) { delete static_cast<JavaBytes*>(context); }

 private:
  Kept reader_;
  jmethodID read_;
};

}  // namespace

HARMONICS_NATIVE(jlong, producerCsv)
(JNIEnv* env, jclass, jbyteArray path, jbyteArray settings, jlong row_limit) {
  hm_producer* producer = nullptr;
  const int code =
      hm_producer_csv(text(env, path).c_str(), text(env, settings).c_str(), row_limit, &producer);
  return made(env, code, producer);
}

HARMONICS_NATIVE(jlong, producerOpen)
(JNIEnv* env, jclass, jbyteArray source, jbyteArray folder) {
  hm_producer* producer = nullptr;
  const int code =
      hm_producer_open(text(env, source).c_str(), text(env, folder).c_str(), &producer);
  return made(env, code, producer);
}

HARMONICS_NATIVE(jlong, producerOpenBytes)
(JNIEnv* env, jclass, jbyteArray source, jlong size, jobject reader) {
  const hm_bytes bytes = {static_cast<std::uint64_t>(size), JavaBytes::read, JavaBytes::release,
                          new JavaBytes(env, reader)};
  hm_producer* producer = nullptr;
  const int code = hm_producer_open_bytes(text(env, source).c_str(), &bytes, &producer);
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

HARMONICS_NATIVE(jlong, producerCache)(JNIEnv* env, jclass, jlong source, jlong limit) {
  hm_producer* producer = nullptr;
  const int code =
      hm_producer_cache(object<hm_producer>(source), static_cast<std::uint64_t>(limit), &producer);
  return made(env, code, producer);
}

HARMONICS_NATIVE(jlong, producerAugment)
(JNIEnv* env, jclass, jlong source, jbyteArray options) {
  hm_producer* producer = nullptr;
  const int code =
      hm_producer_augment(object<hm_producer>(source), text(env, options).c_str(), &producer);
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
