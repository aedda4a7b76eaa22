#include "parameter_wire.h"

#include <cstring>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr std::size_t kMaxParameterName = 4096;
constexpr std::int64_t kMaxAxis = std::int64_t{1} << 40;

TensorSpec read_spec(ByteReader& in) {
  TensorSpec spec;
  const auto dtype = in.number<std::uint8_t>();
  if (dtype != static_cast<std::uint8_t>(DType::kFloat32) &&
      dtype != static_cast<std::uint8_t>(DType::kFloat64)) {
    in.broken("a parameter is float32 or float64");
  }
  spec.dtype = static_cast<DType>(dtype);
  spec.shape.resize(in.count(kMaxMessageAxes, sizeof(std::int64_t)));
  std::int64_t size = 1;
  for (std::int64_t& axis : spec.shape) {
    axis = in.number<std::int64_t>();
    if (axis < 0 || axis > kMaxAxis) in.broken("an axis is too long");
    if (__builtin_mul_overflow(size, axis, &size) || size > kMaxAxis) {
      in.broken("a parameter is too large");
    }
  }
  return spec;
}

}  // namespace

Bytes encode(const ParameterLayout& layout) {
  ByteWriter out;
  out.number(static_cast<std::uint32_t>(layout.mode));
  out.number(layout.workers);
  out.number(layout.shard);
  out.number(layout.shards);
  out.number(static_cast<std::uint32_t>(layout.tensors.size()));
  for (const auto& [name, spec] : layout.tensors) {
    out.text(name);
    out.number(static_cast<std::uint8_t>(spec.dtype));
    out.number(static_cast<std::uint32_t>(spec.shape.size()));
    for (const std::int64_t axis : spec.shape) out.number(axis);
  }
  return out.take();
}

ParameterLayout decode_parameter_layout(ByteSpan bytes) {
  ByteReader in(bytes, "parameter layout");
  ParameterLayout layout;
  const auto mode = in.number<std::uint32_t>();
  if (mode > static_cast<std::uint32_t>(ParameterMode::BoundedStaleness)) in.broken("no such mode");
  layout.mode = static_cast<ParameterMode>(mode);
  layout.workers = in.number<std::uint32_t>();
  layout.shard = in.number<std::uint32_t>();
  layout.shards = in.number<std::uint32_t>();
  if (layout.workers < 1 || layout.workers > kMaxParameterWorkers || layout.shards < 1 ||
      layout.shards > kMaxParameterShards || layout.shard >= layout.shards) {
    in.broken("workers or shards make no sense");
  }
  constexpr std::size_t kLeast = 2 * sizeof(std::uint32_t) + 1;
  const std::uint32_t count = in.count(kMaxParameterTensors, kLeast);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::string name = in.text(kMaxParameterName);
    if (i > 0 && name <= layout.tensors.back().first) in.broken("names are not in order");
    layout.tensors.emplace_back(std::move(name), read_spec(in));
  }
  if (in.left() != 0) in.broken("bytes after the end");
  return layout;
}

Bytes encode(const GradientWeight& weight) {
  ByteWriter out;
  out.number(weight.samples);
  out.number(weight.batch_samples);
  return out.take();
}

GradientWeight decode_gradient_weight(ByteSpan bytes) {
  ByteReader in(bytes, "gradient weight");
  const auto samples = in.number<std::int64_t>();
  const GradientWeight weight{samples, in.number<std::int64_t>()};
  if (in.left() != 0) in.broken("bytes after the end");
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
