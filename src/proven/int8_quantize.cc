// From a float graph to an Int8Network: one scale per output for weights, one per tensor for what
// flows in between, taken from calibration data.
#include <algorithm>
#include <cmath>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/proven/int8_network.h>

#include "float_layers.h"

namespace harmonics::inline in_proven {
namespace {

constexpr double kLargest = 127;
constexpr std::size_t kCentre = 4;

// The largest number that enters each layer, over all calibration rows.
std::vector<double> ranges_of(const std::vector<FloatLayer>& layers, const Tensor& rows) {
  const std::span<const float> values = rows.values<float>();
  const std::size_t per_row = layers[0].shape.inputs * layers[0].shape.pixels();
  if (values.empty() || values.size() % per_row != 0) {
    fail(ErrorCode::kInvalidArgument, "calibration needs rows of {} numbers, {} came", per_row,
         spec_text(rows.spec()));
  }
  std::vector<double> ranges(layers.size(), 0);
  for (std::size_t at = 0; at < values.size(); at += per_row) {
    std::vector<float> row(values.begin() + static_cast<std::ptrdiff_t>(at),
                           values.begin() + static_cast<std::ptrdiff_t>(at + per_row));
    for (std::size_t i = 0; i < layers.size(); ++i) {
      for (const float value : row) ranges[i] = std::max(ranges[i], std::abs(double{value}));
      if (i + 1 < layers.size()) row = computed(layers[i], row);
    }
  }
  for (double& range : ranges) {
    if (!std::isfinite(range)) {
      fail(ErrorCode::kInvalidArgument, "the network is not finite on the calibration data");
    }
    if (range == 0) range = 1;
  }
  return ranges;
}

// A layer's weights in units of scale[output], with inputs that carry the bias appended.
struct IntegerWeights {
  std::vector<double> scales;  // of a weight, per output
  std::vector<std::int64_t> bias;
  std::uint32_t bias_inputs = 0;
};

IntegerWeights integer_weights(const FloatLayer& layer, double input_scale) {
  IntegerWeights out;
  const std::size_t columns = layer.weights.size() / layer.shape.outputs;
  std::int64_t largest = 0;
  for (std::size_t o = 0; o < layer.shape.outputs; ++o) {
    double range = 0;
    for (const float w : std::span(layer.weights).subspan(o * columns, columns)) {
      range = std::max(range, std::abs(double{w}));
    }
    // A bias far above the weights must not need more inputs than there may be.
    const double bias = layer.bias.empty() ? 0 : layer.bias[o];
    const double room = kLargest * kLargest * (kMaxBiasInputs - 1) * input_scale;
    out.scales.push_back(std::max({range / kLargest, std::abs(bias) / room, 1e-30}));
    out.bias.push_back(std::llround(bias / (input_scale * out.scales.back())));
    largest = std::max(largest, std::abs(out.bias.back()));
  }
  if (largest > 0) {
    const std::int64_t coarse = (largest + 127 * 127 - 1) / (127 * 127);
    out.bias_inputs = static_cast<std::uint32_t>(coarse) + 1;
  }
  return out;
}

// Shares a bias out over the coarse inputs; what is left goes to the fine one.
void append_bias(std::int64_t bias, const Int8Layer& layer, std::vector<std::int8_t>& out) {
  const bool dense = layer.shape.kind == LinearShape::Kind::kDense;
  std::int64_t coarse = bias / kBiasCoarse;
  const std::int64_t fine = bias % kBiasCoarse;
  for (std::uint32_t i = 0; i < layer.bias_inputs; ++i) {
    const bool last = i + 1 == layer.bias_inputs;
    const std::int64_t share = last ? fine : std::clamp<std::int64_t>(coarse, -127, 127);
    if (!last) coarse -= share;
    for (std::size_t tap = 0; tap < (dense ? 1 : kKernelTaps); ++tap) {
      out.push_back(dense || tap == kCentre ? static_cast<std::int8_t>(share) : std::int8_t{0});
    }
  }
}

Int8Layer int8_layer(const FloatLayer& from, const IntegerWeights& integer,
                     std::optional<double> factor) {
  Int8Layer layer{from.name, from.shape, integer.bias_inputs, from.relu, from.pool, {}, {}};
  layer.shape.inputs += integer.bias_inputs;
  const std::size_t columns = from.weights.size() / from.shape.outputs;
  for (std::size_t o = 0; o < from.shape.outputs; ++o) {
    for (const float w : std::span(from.weights).subspan(o * columns, columns)) {
      const double scaled = std::round(double{w} / integer.scales[o]);
      layer.weights.push_back(static_cast<std::int8_t>(std::clamp(scaled, -kLargest, kLargest)));
    }
    append_bias(integer.bias[o], layer, layer.weights);
    if (!factor) continue;
    const double wanted = std::ldexp(integer.scales[o] * *factor, kFactorBits);
    layer.factors.push_back(
        static_cast<std::int32_t>(std::clamp(std::round(wanted), 0.0, 2147483647.0)));
  }
  return layer;
}

}  // namespace

Int8Network quantize(const HarmonicGraph& graph, const NamedTensors& weights,
                     const Tensor& calibration) {
  if (!graph.axes().empty()) {
    fail(
        ErrorCode::kUnimplemented,
        "graph '{}' follows the axis {}, an int8 network has fixed shapes: declare a length in its "
        "place",
        graph.name(), graph.axes().front().name);
  }
  const std::vector<FloatLayer> layers = float_layers(graph, weights);
  const auto consumer =
      std::ranges::find(graph.consumers(), graph.layers().back().name, &ConsumerNode::input);
  if (graph.consumers().size() != 1 || consumer == graph.consumers().end() ||
      (!consumer->activation.empty() && consumer->activation != "softmax")) {
    fail(ErrorCode::kUnimplemented,
         "graph '{}' must have one consumer, of its last layer, with softmax or nothing",
         graph.name());
  }
  const std::vector<double> ranges = ranges_of(layers, calibration);
  Int8Network network{graph.name(),
                      graph.layers().front().inputs[0],
                      consumer->name,
                      consumer->activation,
                      kLargest / ranges[0],
                      {},
                      {}};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const double input_scale = ranges[i] / kLargest;
    const IntegerWeights integer = integer_weights(layers[i], input_scale);
    const bool last = i + 1 == layers.size();
    network.layers.push_back(
        int8_layer(layers[i], integer,
                   last ? std::nullopt : std::optional(input_scale * kLargest / ranges[i + 1])));
    if (!last) continue;
    for (const double scale : integer.scales) network.output_scales.push_back(scale * input_scale);
  }
  return network;
}

}  // namespace harmonics::inline in_proven
