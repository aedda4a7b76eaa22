#include <harmonics/data/batch_producer.h>

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace harmonics::inline in_data {

namespace {

// The batch {rows, n, …} without what lies beyond the longest of its samples.
Tensor trimmed_to_longest(const Tensor& batch, std::span<const std::int64_t> lengths) {
  if (lengths.empty() || batch.shape().size() < 2) return batch;
  const std::int64_t longest = std::ranges::max(lengths);
  Shape shape = batch.shape();
  if (longest < 1 || longest > shape[1]) {
    fail(ErrorCode::kInternal, "a sample of length {} where {} is the most", longest, shape[1]);
  }
  if (longest == shape[1]) return batch;
  const std::size_t from = batch.bytes().size() / static_cast<std::size_t>(shape[0]);
  shape[1] = longest;
  Tensor trimmed = Tensor::empty(shape, batch.dtype());
  const std::span<std::byte> out = trimmed.mutable_bytes();
  const std::size_t each = out.size() / static_cast<std::size_t>(shape[0]);
  for (std::size_t row = 0; row < static_cast<std::size_t>(shape[0]); ++row) {
    std::ranges::copy(batch.bytes().subspan(row * from, each), out.subspan(row * each).begin());
  }
  return trimmed;
}

}  // namespace

BatchProducer::BatchProducer(ProducerPtr source, std::int64_t batch_size, BatchLength length)
    : ChainedProducer(std::move(source), "BatchProducer"),
      batch_size_(batch_size),
      length_(length),
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
  std::vector<std::int64_t> lengths;
  if (length_ == BatchLength::kLongest) lengths = source().lengths_ahead(wanted);
  const std::int64_t got = source().next_rows(wanted, batch.mutable_bytes());
  if (got == 0) return std::nullopt;
  ++position_.delivered;
  if (got < wanted) batch = batch.slice(0, got);
  return trimmed_to_longest(batch, lengths);
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
