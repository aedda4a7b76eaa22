#include <harmonics/data/producer.h>

#include <algorithm>

namespace harmonics {

void Producer::skip(std::int64_t count) {
  while (count > 0 && next()) --count;
}

void Producer::seek(const ProducerPosition& position) {
  begin_epoch(position.order);
  skip(position.delivered);
}

void IndexedProducer::begin_epoch(const SampleOrder& order) { position_ = {order, 0}; }

std::optional<Tensor> IndexedProducer::next() {
  if (position_.delivered >= row_count()) return std::nullopt;
  const TensorSpec spec = sample_spec();
  Tensor sample = Tensor::empty(spec.shape, spec.dtype);
  read(std::span(&position_.delivered, 1), sample.mutable_bytes());
  ++position_.delivered;
  return sample;
}

void IndexedProducer::skip(std::int64_t count) {
  position_.delivered = std::min(position_.delivered + count, row_count());
}

}  // namespace harmonics
