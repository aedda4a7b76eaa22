#include "profile_inputs.h"

#include <algorithm>
#include <limits>

#include <harmonics/base/random.h>
#include <harmonics/graph/sent_weights.h>
#include <harmonics/runtime/devices.h>

namespace harmonics::inline in_place {
namespace {

constexpr std::uint64_t kSeed = 1;

template <typename T, typename Draw>
void fill(Tensor& tensor, Draw draw) {
  for (T& value : tensor.mutable_values<T>()) value = static_cast<T>(draw());
}

/// Whether it says which rows count: a second input of attention or mean.
bool is_mask(const HarmonicGraph& part, const std::string& producer) {
  return std::ranges::any_of(part.layers(), [&](const LayerNode& layer) {
    const bool takes_mask = layer.type == "attention" || layer.type == "mean";
    return takes_mask && layer.inputs.size() > 1 && layer.inputs[1] == producer;
  });
}

/// All rows count: of a mask of zeros nothing would be left to compute.
Tensor full_mask(Shape shape, DType dtype) {
  Tensor tensor = Tensor::zeros(std::move(shape), dtype);
  const auto one = [] { return 1; };
  switch (dtype) {
    case DType::kInt64: fill<std::int64_t>(tensor, one); break;
    case DType::kInt32: fill<std::int32_t>(tensor, one); break;
    case DType::kInt8: fill<std::int8_t>(tensor, one); break;
    case DType::kUInt8: fill<std::uint8_t>(tensor, one); break;
    case DType::kBool: fill<bool>(tensor, one); break;
    // No layer takes a mask of these.
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kBFloat16:
    case DType::kFloat16: break;
  }
  return tensor;
}

Tensor synthetic(const std::string& name, Shape shape, DType dtype, std::int64_t limit) {
  Tensor tensor = Tensor::zeros(std::move(shape), dtype);
  Random random(kSeed, name);
  const auto uniform = [&] { return random.uniform(); };
  const auto id = [&] { return random.below(static_cast<std::uint64_t>(limit)); };
  switch (dtype) {
    case DType::kFloat32: fill<float>(tensor, uniform); break;
    case DType::kFloat64: fill<double>(tensor, uniform); break;
    case DType::kInt64: fill<std::int64_t>(tensor, id); break;
    case DType::kInt32: fill<std::int32_t>(tensor, id); break;
    // Too narrow for ids, or raw bits: zero is a valid value of all of them.
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kBool:
    case DType::kBFloat16:
    case DType::kFloat16: break;
  }
  return tensor;
}

}  // namespace

std::int64_t id_limit(const HarmonicGraph& part, const std::string& producer) {
  std::int64_t limit = std::numeric_limits<std::int32_t>::max();
  bool known = false;
  const auto narrow = [&](std::int64_t to) {
    limit = std::min(limit, to);
    known = true;
  };
  for (std::size_t i = 0; i < part.layers().size(); ++i) {
    const LayerNode& layer = part.layers()[i];
    if (std::ranges::find(layer.inputs, producer) == layer.inputs.end()) continue;
    narrow(layer.type == "embedding" ? part.layer_shape(i).parameters.front().shape.front() : 1);
  }
  for (const TrainingTap& tap : part.taps()) {
    if (tap.target != producer) continue;
    const Shape& prediction = part.spec(tap.prediction).shape;
    const bool ids = tap.loss == "cross_entropy" || tap.loss == "next_token";
    narrow(ids && !prediction.empty() ? prediction.back() : 1);
  }
  return known ? limit : 1;
}

NamedTensors synthetic_inputs(const HarmonicGraph& part, std::int64_t batch, Device device) {
  NamedTensors inputs;
  for (const ProducerNode& node : part.producers()) {
    const TensorSpec& spec = part.spec(node.name);
    Shape shape = spec.shape;
    shape.insert(shape.begin(), brings_weight(part, node.name) ? 1 : batch);
    const std::int64_t limit = is_floating(spec.dtype) ? 1 : id_limit(part, node.name);
    inputs.emplace(node.name,
                   copy_to_device(is_mask(part, node.name)
                                      ? full_mask(std::move(shape), spec.dtype)
                                      : synthetic(node.name, std::move(shape), spec.dtype, limit),
                                  device));
  }
  return inputs;
}

NamedTensors synthetic_gradients(const HarmonicGraph& part, std::int64_t batch, Device device) {
  NamedTensors gradients;
  for (const ConsumerNode& node : part.consumers()) {
    if (node.gradient_slots == 0) continue;
    const TensorSpec& spec = part.spec(node.input);
    Shape shape = spec.shape;
    const std::int64_t rows = is_sent_weight(part, node.input) ? 1 : batch;
    shape.insert(shape.begin(), {static_cast<std::int64_t>(node.gradient_slots), rows});
    gradients.emplace(
        node.name, copy_to_device(synthetic(node.name, std::move(shape), spec.dtype, 1), device));
  }
  return gradients;
}

}  // namespace harmonics::inline in_place
