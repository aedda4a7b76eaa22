#include <harmonics/data/map_producer.h>

#include <cstring>
#include <utility>

namespace harmonics::inline in_data {
namespace {

void check_function(const MapFunction& function, const TensorSpec& output) {
  if (!function) fail(ErrorCode::kInvalidArgument, "a MapProducer needs a function");
  static_cast<void>(element_count(output.shape));
}

Tensor checked(Tensor result, const TensorSpec& expected) {
  if (!result.defined() || result.spec() != expected) {
    fail(ErrorCode::kInvalidArgument, "the function of a MapProducer made {} where it promised {}",
         result.defined() ? spec_text(result.spec()) : "an undefined tensor", spec_text(expected));
  }
  return result;
}

}  // namespace

MapProducer::MapProducer(ProducerPtr source, MapFunction function, TensorSpec output)
    : ChainedProducer(std::move(source), "MapProducer"),
      function_(std::move(function)),
      output_(std::move(output)) {
  check_function(function_, output_);
}

std::optional<Tensor> MapProducer::next() {
  return next_changed([this](const Tensor& tensor, std::int64_t) {
    TensorSpec expected = output_;
    if (batched()) expected.shape.insert(expected.shape.begin(), tensor.shape().at(0));
    return checked(function_(tensor), expected);
  });
}

IndexedMapProducer::IndexedMapProducer(IndexedProducerPtr source, MapFunction function,
                                       TensorSpec output)
    : source_(std::move(source)), function_(std::move(function)), output_(std::move(output)) {
  if (source_ == nullptr) fail(ErrorCode::kInvalidArgument, "a MapProducer needs a source");
  check_function(function_, output_);
}

void IndexedMapProducer::read(std::span<const std::int64_t> rows, std::span<std::byte> out) {
  check_read(rows, out);
  const TensorSpec input = source_->sample_spec();
  std::byte* to = out.data();
  for (const std::int64_t row : rows) {
    Tensor sample = Tensor::empty(input.shape, input.dtype);
    source_->read(std::span(&row, 1), sample.mutable_bytes());
    const Tensor result = checked(function_(sample), output_);
    if (result.byte_size() > 0) std::memcpy(to, result.bytes().data(), result.byte_size());
    to += result.byte_size();
  }
}

}  // namespace harmonics::inline in_data
