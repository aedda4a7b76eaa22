// Sixteen samples for a graph, drawn by a seed: numbers of a normal distribution, labels below ten.
#pragma once

#include <cstdint>

#include <harmonics/base/random.h>
#include <harmonics/graph/graph.h>
#include <harmonics/runtime/stage.h>

namespace harmonics::inline in_schedule {

inline NamedTensors made_batch(const HarmonicGraph& graph, std::uint64_t seed) {
  NamedTensors inputs;
  for (const ProducerNode& node : graph.producers()) {
    Shape shape = *node.shape;
    shape.insert(shape.begin(), 16);
    Tensor tensor = Tensor::empty(shape, node.dtype);
    Random random(seed, node.name);
    if (node.dtype == DType::kInt64) {
      for (auto& value : tensor.mutable_values<std::int64_t>()) value = random.below(10);
    } else {
      for (auto& value : tensor.mutable_values<float>()) value = random.normal();
    }
    inputs[node.name] = tensor;
  }
  return inputs;
}

}  // namespace harmonics::inline in_schedule
