#include "parameter_wire.h"

#include <cstring>
#include <utility>

#include <harmonics/base/byte_fields.h>
#include <harmonics/base/error.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr std::size_t kMaxParameterName = 4096;
constexpr std::int64_t kMaxAxis = std::int64_t{1} << 40;

constexpr std::size_t kLeastTensorBytes = 2 * sizeof(std::uint32_t) + 1;

constexpr auto kSpecFields = [](auto& a, auto& spec) {
  a.template kind<std::uint8_t>(spec.dtype, static_cast<DType>(kDTypeCount - 1));
  a.check(spec.dtype == DType::kFloat32 || spec.dtype == DType::kFloat64,
          "a parameter is float32 or float64");
  std::int64_t size = 1;
  a.list(spec.shape, kMaxMessageAxes, sizeof(std::int64_t), [&](auto& axis) {
    a.number(axis);
    a.check(axis >= 0 && axis <= kMaxAxis, "an axis is too long");
    a.check(!__builtin_mul_overflow(size, axis, &size) && size <= kMaxAxis,
            "a parameter is too large");
  });
};

constexpr auto kLayoutFields = [](auto& a, auto& layout) {
  a.template kind<std::uint32_t>(layout.mode, ParameterMode::BoundedStaleness);
  a.number(layout.workers);
  a.number(layout.shard);
  a.number(layout.shards);
  a.check(layout.workers >= 1 && layout.workers <= kMaxParameterWorkers && layout.shards >= 1 &&
              layout.shards <= kMaxParameterShards && layout.shard < layout.shards,
          "workers or shards make no sense");
  const std::string* before = nullptr;
  a.list(layout.tensors, kMaxParameterTensors, kLeastTensorBytes, [&](auto& tensor) {
    a.text(tensor.first, kMaxParameterName);
    a.check(before == nullptr || *before < tensor.first, "names are not in order");
    before = &tensor.first;
    kSpecFields(a, tensor.second);
  });
};

constexpr auto kWeightFields = [](auto& a, auto& weight) {
  a.number(weight.samples);
  a.number(weight.batch_samples);
};

}  // namespace

Bytes encode(const ParameterLayout& layout) { return write_fields(layout, kLayoutFields); }

ParameterLayout decode_parameter_layout(ByteSpan bytes) {
  return read_fields<ParameterLayout>(bytes, "parameter layout", kLayoutFields);
}

Bytes encode(const GradientWeight& weight) { return write_fields(weight, kWeightFields); }

GradientWeight decode_gradient_weight(ByteSpan bytes) {
  const auto weight = read_fields<GradientWeight>(bytes, "gradient weight", kWeightFields);
  if (weight.samples < 0 || weight.batch_samples < 1 || weight.samples > weight.batch_samples ||
      weight.batch_samples > kMaxGradientSamples) {
    fail(ErrorCode::kInvalidArgument, "gradients of {} samples of a batch of {} make no sense",
         weight.samples, weight.batch_samples);
  }
  return weight;
}

ParameterStreams make_parameter_streams(RemoteBinding place, std::uint32_t worker,
                                        const TransportOptions& options) {
  const std::string name = place.name.empty() ? "parameters" : place.name;
  ParameterStreams streams;
  place.name = format("{}/{}/gradients", name, worker);
  streams.gradients = make_transport(place, options);
  place.name = format("{}/{}/parameters", name, worker);
  place.port = streams.gradients->binding().port;
  streams.parameters = make_transport(place, options);
  return streams;
}

Tensor bytes_tensor(ByteSpan bytes) {
  Tensor tensor = Tensor::empty({static_cast<std::int64_t>(bytes.size())}, DType::kUInt8);
  if (!bytes.empty()) std::memcpy(tensor.mutable_bytes().data(), bytes.data(), bytes.size());
  return tensor;
}

}  // namespace harmonics::inline in_schedule
