// From a float graph to an Int8Network: one scale per output for weights, one per tensor for what
// flows in between, taken from calibration data.
#include <algorithm>
#include <cmath>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/proven/int8_network.h>

namespace harmonics::inline in_proven {
namespace {

constexpr double kLargest = 127;
constexpr std::size_t kTaps = 9;
constexpr std::size_t kCentre = 4;

// A layer in float, as the graph has it.
struct FloatLayer {
  std::string name;
  LinearShape shape;
  bool relu = false;
  std::span<const float> weights;
  std::span<const float> bias;  // empty: none
};

[[noreturn]] void refuse(const LayerNode& node, const std::string& why) {
  fail(ErrorCode::kUnimplemented,
       "layer '{}' ({}) cannot be made int8: {}. A chain of linear and conv2d (3x3, stride 1, "
       "padding 1) layers with relu, dropout and flatten in between can",
       node.name, node.type, why);
}

std::int64_t attribute(const HarmonicGraph& graph, std::size_t index, const char* name) {
  const Attribute& value = graph.full_attributes(index).at(name);
  if (const auto* list = std::get_if<Shape>(&value)) {
    return std::ranges::all_of(*list, [&](std::int64_t v) { return v == list->front(); })
               ? list->front()
               : -1;
  }
  const auto* number = std::get_if<std::int64_t>(&value);
  return number != nullptr ? *number : -1;
}

std::span<const float> parameter(const NamedTensors& weights, const std::string& name) {
  const auto found = weights.find(name);
  if (found == weights.end()) return {};
  return found->second.values<float>();
}

LinearShape shape_of(const HarmonicGraph& graph, std::size_t index, const LayerNode& node) {
  const Shape& in = graph.spec(node.inputs[0]).shape;
  const Shape& out = graph.layer_shape(index).output.shape;
  const auto narrow = [](std::int64_t extent) { return static_cast<std::uint32_t>(extent); };
  if (node.type == "linear") {
    if (in.size() != 1) refuse(node, "its input has more than one axis");
    return {LinearShape::Kind::kDense, 1, narrow(in[0]), narrow(out[0]), 1, 1};
  }
  if (attribute(graph, index, "kernel") != 3 || attribute(graph, index, "stride") != 1 ||
      attribute(graph, index, "padding") != 1 || attribute(graph, index, "groups") != 1 ||
      graph.full_attributes(index).contains("dilation")) {
    refuse(node, "it is no 3x3 convolution of stride 1, padding 1 and one group");
  }
  return {
      LinearShape::Kind::kConv3x3, 1, narrow(in[0]), narrow(out[0]), narrow(in[1]), narrow(in[2])};
}

void take_activation(const LayerNode& node, std::vector<FloatLayer>& layers) {
  if (node.activation.empty()) return;
  if (node.activation != "relu" || layers.empty()) {
    refuse(node, "its activation '" + node.activation + "' is not relu");
  }
  layers.back().relu = true;
}

// The layers of a graph that is one chain from one producer to one consumer.
std::vector<FloatLayer> chain_of(const HarmonicGraph& graph, const NamedTensors& weights) {
  std::vector<FloatLayer> layers;
  std::string current = graph.layers().empty() ? "" : graph.layers().front().inputs.at(0);
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    const LayerNode& node = graph.layers()[i];
    if (node.inputs.size() != 1 || node.inputs[0] != current) {
      refuse(node, "it does not take the layer before it alone");
    }
    current = node.name;
    if (node.type == "linear" || node.type == "conv2d") {
      layers.push_back({node.name, shape_of(graph, i, node), false,
                        parameter(weights, node.name + ".weight"),
                        parameter(weights, node.name + ".bias")});
      if (layers.back().weights.empty()) {
        fail(ErrorCode::kNotFound, "there are no weights '{}.weight'", node.name);
      }
    } else if (node.type != "dropout" && node.type != "flatten") {
      refuse(node, "there is no int8 form of it");
    }
    take_activation(node, layers);
  }
  if (layers.empty() || layers.size() > kMaxInt8Layers) {
    fail(ErrorCode::kUnimplemented, "graph '{}' has {} layers that can be made int8, 1 to {} can",
         graph.name(), layers.size(), kMaxInt8Layers);
  }
  return layers;
}

float dense_sum(const FloatLayer& layer, std::span<const float> in, std::size_t output) {
  double sum = layer.bias.empty() ? 0 : layer.bias[output];
  const auto row = layer.weights.subspan(output * in.size(), in.size());
  for (std::size_t i = 0; i < in.size(); ++i) sum += double{row[i]} * in[i];
  return static_cast<float>(sum);
}

float conv_sum(const FloatLayer& layer, std::span<const float> in, std::size_t output,
               std::size_t pixel) {
  const auto width = static_cast<std::ptrdiff_t>(layer.shape.width);
  const auto height = static_cast<std::ptrdiff_t>(layer.shape.height);
  double sum = layer.bias.empty() ? 0 : layer.bias[output];
  for (std::size_t at = 0; at < layer.shape.inputs * kTaps; ++at) {
    const std::ptrdiff_t y = static_cast<std::ptrdiff_t>(pixel) / width +
                             static_cast<std::ptrdiff_t>(at % kTaps / 3) - 1;
    const std::ptrdiff_t x =
        static_cast<std::ptrdiff_t>(pixel) % width + static_cast<std::ptrdiff_t>(at % 3) - 1;
    if (y < 0 || y >= height || x < 0 || x >= width) continue;
    const std::size_t source =
        at / kTaps * layer.shape.pixels() + static_cast<std::size_t>(y * width + x);
    sum += double{layer.weights[output * layer.shape.inputs * kTaps + at]} * in[source];
  }
  return static_cast<float>(sum);
}

std::vector<float> computed(const FloatLayer& layer, std::span<const float> in) {
  std::vector<float> out;
  for (std::size_t o = 0; o < layer.shape.outputs; ++o) {
    for (std::size_t pixel = 0; pixel < layer.shape.pixels(); ++pixel) {
      const float sum = layer.shape.kind == LinearShape::Kind::kDense
                            ? dense_sum(layer, in, o)
                            : conv_sum(layer, in, o, pixel);
      out.push_back(layer.relu ? std::max(sum, 0.0f) : sum);
    }
  }
  return out;
}

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
    for (const float w : layer.weights.subspan(o * columns, columns)) {
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
    for (std::size_t tap = 0; tap < (dense ? 1 : kTaps); ++tap) {
      out.push_back(dense || tap == kCentre ? static_cast<std::int8_t>(share) : std::int8_t{0});
    }
  }
}

Int8Layer int8_layer(const FloatLayer& from, const IntegerWeights& integer,
                     std::optional<double> factor) {
  Int8Layer layer{from.name, from.shape, integer.bias_inputs, from.relu, {}, {}};
  layer.shape.inputs += integer.bias_inputs;
  const std::size_t columns = from.weights.size() / from.shape.outputs;
  for (std::size_t o = 0; o < from.shape.outputs; ++o) {
    for (const float w : from.weights.subspan(o * columns, columns)) {
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
  const std::vector<FloatLayer> layers = chain_of(graph, weights);
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
