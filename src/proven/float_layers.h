// The layers of a graph that has an int8 form, in float (private to proven).
#pragma once

#include <span>
#include <string>
#include <vector>

#include <harmonics/proven/int8_network.h>

namespace harmonics::inline in_proven {

/// Of a 3x3 kernel.
inline constexpr std::size_t kKernelTaps = 9;

/// A convolution or dense layer with what stands behind it: norms are folded into weights and bias.
struct FloatLayer {
  std::string name;
  LinearShape shape;
  bool relu = false;
  bool pool = false;
  std::vector<float> weights;
  std::vector<float> bias;  // empty: none
};

/// The layers of a graph that is one chain from one producer to one consumer. A layer without an
/// int8 form is an Error (kUnimplemented) that names it.
[[nodiscard]] std::vector<FloatLayer> float_layers(const HarmonicGraph& graph,
                                                   const NamedTensors& weights);
/// What a layer gives for one sample.
[[nodiscard]] std::vector<float> computed(const FloatLayer& layer, std::span<const float> in);

}  // namespace harmonics::inline in_proven
