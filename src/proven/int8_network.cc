#include <harmonics/proven/int8_network.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_proven {
namespace {

std::int8_t bias_value(std::uint32_t index, std::uint32_t count) {
  return index + 1 == count ? kBiasFine : kBiasCoarse;
}

std::int8_t clamped(std::int64_t value) {
  return static_cast<std::int8_t>(std::clamp<std::int64_t>(value, -127, 127));
}

// The largest of each 2x2 window of one sample's planes.
std::vector<std::int8_t> pooled(const Int8Layer& layer, std::span<const std::int8_t> in) {
  std::vector<std::int8_t> out;
  const std::size_t width = layer.shape.width;
  for (std::size_t row = 0; row < in.size() / width; row += 2) {
    for (std::size_t x = 0; x < width; x += 2) {
      const std::int8_t* at = &in[row * width + x];
      out.push_back(std::max({at[0], at[1], at[width], at[width + 1]}));
    }
  }
  return out;
}

// One sample's sums, scaled back.
std::vector<std::int8_t> scaled(const Int8Layer& layer, std::span<const std::int32_t> sums) {
  std::vector<std::int8_t> out;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    std::int64_t sum = sums[i];
    if (layer.relu) sum = std::max<std::int64_t>(sum, 0);
    const std::int64_t product =
        sum * layer.factors[i / layer.shape.pixels()] + (std::int64_t{1} << (kFactorBits - 1));
    out.push_back(clamped(product >> kFactorBits));
  }
  return layer.pool ? pooled(layer, out) : out;
}

}  // namespace

std::size_t Int8Layer::data_inputs() const { return (shape.inputs - bias_inputs) * shape.pixels(); }
std::size_t Int8Layer::data_outputs() const {
  return shape.outputs * shape.pixels() / (pool ? 4 : 1);
}

void Int8Layer::append_constants(std::vector<std::int8_t>& out) const {
  for (std::uint32_t i = 0; i < bias_inputs; ++i) {
    out.insert(out.end(), shape.pixels(), bias_value(i, bias_inputs));
  }
}

LinearShape Int8Layer::shape_for(std::uint32_t batch) const {
  LinearShape for_batch = shape;
  for_batch.batch = batch;
  return for_batch;
}

std::vector<std::int8_t> int8_input(const Int8Network& network, const Tensor& rows) {
  const Int8Layer& layer = network.layers.front();
  const std::span<const float> values = rows.values<float>();
  const std::size_t per_row = layer.data_inputs();
  if (rows.shape().empty() ||
      values.size() != static_cast<std::size_t>(rows.shape()[0]) * per_row) {
    fail(ErrorCode::kInvalidArgument, "producer '{}': rows of {} numbers are expected, {} came",
         network.producer, per_row, spec_text(rows.spec()));
  }
  std::vector<std::int8_t> out;
  for (std::size_t at = 0; at < values.size(); at += per_row) {
    for (const float value : values.subspan(at, per_row)) {
      if (!std::isfinite(value)) {
        fail(ErrorCode::kInvalidArgument, "producer '{}': an input is not finite",
             network.producer);
      }
      const double scaled = static_cast<double>(value) * network.input_factor;
      out.push_back(
          clamped(static_cast<std::int64_t>(std::clamp(std::round(scaled), -127.0, 127.0))));
    }
    layer.append_constants(out);
  }
  return out;
}

std::vector<std::int8_t> next_input(const Int8Network& network, std::size_t index,
                                    std::span<const std::int32_t> sums) {
  const Int8Layer& layer = network.layers.at(index);
  const Int8Layer& next = network.layers.at(index + 1);
  const std::size_t per_row = layer.shape.outputs * layer.shape.pixels();
  std::vector<std::int8_t> out;
  for (std::size_t at = 0; at < sums.size(); at += per_row) {
    const std::vector<std::int8_t> row = scaled(layer, sums.subspan(at, per_row));
    out.insert(out.end(), row.begin(), row.end());
    next.append_constants(out);
  }
  return out;
}

NetworkLayers provable_layers(const Int8Network& network) {
  static_assert(kFactorBits == kNetworkFactorBits);
  NetworkLayers layers;
  for (const Int8Layer& layer : network.layers) {
    std::vector<std::int8_t> constants;
    for (std::uint32_t i = 0; i < layer.bias_inputs; ++i) {
      constants.push_back(bias_value(i, layer.bias_inputs));
    }
    layers.push_back({layer.shape, std::move(constants), layer.relu, layer.pool});
  }
  if (!layers.empty()) layers.back().relu = false;
  return layers;
}

std::vector<LayerParameters> provable_parameters(const Int8Network& network) {
  std::vector<LayerParameters> parameters;
  for (const Int8Layer& layer : network.layers) {
    parameters.push_back({layer.weights, layer.factors});
  }
  return parameters;
}

std::vector<std::int8_t> without_constants(const Int8Network& network,
                                           std::span<const std::int8_t> input) {
  const Int8Layer& layer = network.layers.front();
  const std::size_t per_row = layer.shape.inputs * layer.shape.pixels();
  std::vector<std::int8_t> out;
  for (std::size_t at = 0; at + per_row <= input.size(); at += per_row) {
    const auto row = input.subspan(at, layer.data_inputs());
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

Tensor int8_output(const Int8Network& network, std::span<const std::int32_t> sums) {
  const Int8Layer& layer = network.layers.back();
  const std::size_t pixels = layer.shape.pixels();
  const std::size_t per_row = layer.shape.outputs * pixels;
  Shape shape = {static_cast<std::int64_t>(sums.size() / per_row), layer.shape.outputs};
  if (layer.shape.kind == LinearShape::Kind::kConv3x3) {
    shape.insert(shape.end(), {layer.shape.height, layer.shape.width});
  }
  Tensor out = Tensor::empty(shape);
  const std::span<float> values = out.mutable_values<float>();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::int32_t sum = layer.relu ? std::max(sums[i], 0) : sums[i];
    values[i] = static_cast<float>(sum * network.output_scales[i / pixels % layer.shape.outputs]);
  }
  if (network.activation != "softmax") return out;
  for (std::size_t at = 0; at < values.size(); at += per_row) {
    const std::span<float> row = values.subspan(at, per_row);
    const float top = *std::ranges::max_element(row);
    double total = 0;
    for (float& value : row) total += value = std::exp(value - top);
    for (float& value : row) value = static_cast<float>(value / total);
  }
  return out;
}

Tensor infer(const Int8Network& network, const Tensor& rows) {
  std::vector<std::int8_t> input = int8_input(network, rows);
  const auto batch = static_cast<std::uint32_t>(rows.shape()[0]);
  for (std::size_t i = 0;; ++i) {
    const Int8Layer& layer = network.layers[i];
    const auto sums = linear_product(layer.shape_for(batch), input, layer.weights);
    if (i + 1 == network.layers.size()) return int8_output(network, sums);
    input = next_input(network, i, sums);
  }
}

}  // namespace harmonics::inline in_proven
