#include "float_layers.h"

#include <algorithm>
#include <cmath>

#include <harmonics/base/error.h>

namespace harmonics::inline in_proven {
namespace {

[[noreturn]] void refuse(const LayerNode& node, const std::string& why) {
  fail(ErrorCode::kUnimplemented,
       "layer '{}' ({}) cannot be made int8: {}. A chain of linear and conv2d (3x3, stride 1, "
       "padding 1) layers with batch_norm and max_pool(2) behind a conv2d and relu, dropout and "
       "flatten in between can",
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

// The convolution that a norm or a pool stands behind.
FloatLayer& convolution_before(const LayerNode& node, std::vector<FloatLayer>& layers) {
  if (layers.empty() || layers.back().shape.kind != LinearShape::Kind::kConv3x3 ||
      layers.back().pool) {
    refuse(node, "it does not stand behind a conv2d");
  }
  return layers.back();
}

// A norm in evaluation is a factor and an offset per channel, which weights and bias take over.
void take_norm(const HarmonicGraph& graph, std::size_t index, const NamedTensors& weights,
               std::vector<FloatLayer>& layers) {
  const LayerNode& node = graph.layers()[index];
  FloatLayer& conv = convolution_before(node, layers);
  if (conv.relu) refuse(node, "relu stands between it and the conv2d");
  const auto factor = parameter(weights, node.name + ".weight");
  const auto offset = parameter(weights, node.name + ".bias");
  const auto mean = parameter(weights, node.name + ".running_mean");
  const auto variance = parameter(weights, node.name + ".running_var");
  for (const std::span<const float> numbers : {factor, offset, mean, variance}) {
    if (numbers.size() == conv.shape.outputs) continue;
    fail(ErrorCode::kNotFound,
         "the weights have no weight, bias, running_mean and running_var of {} channels for '{}'",
         conv.shape.outputs, node.name);
  }
  const Attribute& given = graph.full_attributes(index).at("eps");
  const auto* whole = std::get_if<std::int64_t>(&given);
  const double eps = whole != nullptr ? static_cast<double>(*whole) : std::get<double>(given);
  conv.bias.resize(conv.shape.outputs);
  const std::size_t columns = conv.weights.size() / conv.shape.outputs;
  for (std::size_t o = 0; o < conv.shape.outputs; ++o) {
    const double scale = factor[o] / std::sqrt(double{variance[o]} + eps);
    for (float& w : std::span(conv.weights).subspan(o * columns, columns)) {
      w = static_cast<float>(w * scale);
    }
    conv.bias[o] = static_cast<float>((double{conv.bias[o]} - mean[o]) * scale + offset[o]);
  }
}

// With relu before it or behind it: the largest comes out the same.
void take_pool(const HarmonicGraph& graph, std::size_t index, std::vector<FloatLayer>& layers) {
  const LayerNode& node = graph.layers()[index];
  FloatLayer& conv = convolution_before(node, layers);
  const Attributes& attributes = graph.full_attributes(index);
  const bool strided = attributes.contains("stride") && attribute(graph, index, "stride") != 2;
  if (attribute(graph, index, "kernel") != 2 || strided ||
      attribute(graph, index, "padding") != 0 || attributes.contains("dilation") ||
      conv.shape.height % 2 != 0 || conv.shape.width % 2 != 0) {
    refuse(node, "its windows are not 2x2 over a picture of even height and width");
  }
  conv.pool = true;
}

void take_layer(const HarmonicGraph& graph, std::size_t index, const NamedTensors& weights,
                std::vector<FloatLayer>& layers) {
  const LayerNode& node = graph.layers()[index];
  if (node.type == "linear" || node.type == "conv2d") {
    const auto own = parameter(weights, node.name + ".weight");
    const auto bias = parameter(weights, node.name + ".bias");
    if (own.empty()) fail(ErrorCode::kNotFound, "there are no weights '{}.weight'", node.name);
    layers.push_back({node.name,
                      shape_of(graph, index, node),
                      false,
                      false,
                      {own.begin(), own.end()},
                      {bias.begin(), bias.end()}});
  } else if (node.type == "batch_norm") {
    take_norm(graph, index, weights, layers);
  } else if (node.type == "max_pool") {
    take_pool(graph, index, layers);
  } else if (node.type != "dropout" && node.type != "flatten") {
    refuse(node, "there is no int8 form of it");
  }
  take_activation(node, layers);
}

float dense_sum(const FloatLayer& layer, std::span<const float> in, std::size_t output) {
  double sum = layer.bias.empty() ? 0 : layer.bias[output];
  const auto row = std::span(layer.weights).subspan(output * in.size(), in.size());
  for (std::size_t i = 0; i < in.size(); ++i) sum += double{row[i]} * in[i];
  return static_cast<float>(sum);
}

float conv_sum(const FloatLayer& layer, std::span<const float> in, std::size_t output,
               std::size_t pixel) {
  const auto width = static_cast<std::ptrdiff_t>(layer.shape.width);
  const auto height = static_cast<std::ptrdiff_t>(layer.shape.height);
  double sum = layer.bias.empty() ? 0 : layer.bias[output];
  for (std::size_t at = 0; at < layer.shape.inputs * kKernelTaps; ++at) {
    const std::ptrdiff_t y = static_cast<std::ptrdiff_t>(pixel) / width +
                             static_cast<std::ptrdiff_t>(at % kKernelTaps / 3) - 1;
    const std::ptrdiff_t x =
        static_cast<std::ptrdiff_t>(pixel) % width + static_cast<std::ptrdiff_t>(at % 3) - 1;
    if (y < 0 || y >= height || x < 0 || x >= width) continue;
    const std::size_t source =
        at / kKernelTaps * layer.shape.pixels() + static_cast<std::size_t>(y * width + x);
    sum += double{layer.weights[output * layer.shape.inputs * kKernelTaps + at]} * in[source];
  }
  return static_cast<float>(sum);
}

std::vector<float> pooled(const FloatLayer& layer, std::span<const float> in) {
  std::vector<float> out;
  const std::size_t width = layer.shape.width;
  for (std::size_t row = 0; row < in.size() / width; row += 2) {
    for (std::size_t x = 0; x < width; x += 2) {
      const float* at = &in[row * width + x];
      out.push_back(std::max({at[0], at[1], at[width], at[width + 1]}));
    }
  }
  return out;
}

}  // namespace

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
  return layer.pool ? pooled(layer, out) : out;
}

std::vector<FloatLayer> float_layers(const HarmonicGraph& graph, const NamedTensors& weights) {
  std::vector<FloatLayer> layers;
  std::string current = graph.layers().empty() ? "" : graph.layers().front().inputs.at(0);
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    const LayerNode& node = graph.layers()[i];
    if (node.inputs.size() != 1 || node.inputs[0] != current) {
      refuse(node, "it does not take the layer before it alone");
    }
    current = node.name;
    take_layer(graph, i, weights, layers);
  }
  if (layers.empty() || layers.size() > kMaxInt8Layers) {
    fail(ErrorCode::kUnimplemented, "graph '{}' has {} layers that can be made int8, 1 to {} can",
         graph.name(), layers.size(), kMaxInt8Layers);
  }
  if (layers.back().pool) {
    fail(ErrorCode::kUnimplemented, "graph '{}' ends with a pool: its outputs have no int8 form",
         graph.name());
  }
  return layers;
}

}  // namespace harmonics::inline in_proven
