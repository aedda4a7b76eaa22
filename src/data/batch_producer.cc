#include <harmonics/data/batch_producer.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace harmonics::inline in_data {

BatchProducer::BatchProducer(ProducerPtr source, std::int64_t batch_size)
    : ChainedProducer(std::move(source), "BatchProducer"),
      batch_size_(batch_size),
      position_(this->source().position()) {
  require_samples("BatchProducer");
  if (batch_size < 1 || batch_size > kMaxBatchSize) {
    fail(ErrorCode::kInvalidArgument, "a batch of {} samples: the batch size must be 1 to {}",
         batch_size, kMaxBatchSize);
  }
}

std::optional<std::int64_t> BatchProducer::size() const {
  const auto samples = source().size();
  if (!samples) return std::nullopt;
  return *samples / batch_size_ + (*samples % batch_size_ == 0 ? 0 : 1);
}

void BatchProducer::begin_epoch(const SampleOrder& order) {
  source().begin_epoch(order);
  position_ = {order, 0};
}

std::optional<Tensor> BatchProducer::next() {
  std::int64_t wanted = batch_size_;
  if (const auto samples = source().size()) {
    wanted = std::min(wanted, *samples - source().position().delivered);
  }
  if (wanted <= 0) return std::nullopt;
  const TensorSpec spec = sample_spec();
  Shape shape = {wanted};
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  Tensor batch = Tensor::empty(std::move(shape), spec.dtype);
  const std::int64_t got = source().next_rows(wanted, batch.mutable_bytes());
  if (got == 0) return std::nullopt;
  ++position_.delivered;
  return got == wanted ? batch : batch.slice(0, got);
}

void BatchProducer::skip(std::int64_t count) {
  if (const auto batches = size()) count = std::min(count, *batches - position_.delivered);
  if (count <= 0) return;
  if (count > std::numeric_limits<std::int64_t>::max() / batch_size_ - position_.delivered) {
    fail(ErrorCode::kOutOfRange, "cannot pass over {} batches of {} samples", count, batch_size_);
  }
  source().skip(count * batch_size_);
  position_.delivered += count;
}

}  // namespace harmonics::inline in_data
