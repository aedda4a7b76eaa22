#include <harmonics/data/memory_consumer.h>

namespace harmonics::inline in_data {

void MemoryConsumer::push(const Tensor& batch) {
  if (!batch.defined() || batch.shape().empty()) {
    fail(ErrorCode::kInvalidArgument, "a MemoryConsumer takes batches, with a leading batch axis");
  }
  if (batch.byte_size() > limit_bytes_ - bytes_) {
    fail(ErrorCode::kResourceExhausted,
         "a MemoryConsumer is full: {} bytes kept, {} more pushed, the limit is {}", bytes_,
         batch.byte_size(), limit_bytes_);
  }
  batches_.push_back(batch);
  bytes_ += batch.byte_size();
}

void MemoryConsumer::clear() {
  batches_.clear();
  bytes_ = 0;
}

}  // namespace harmonics::inline in_data
