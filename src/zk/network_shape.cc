// What a network must be like to be proven.
#include <harmonics/base/format.h>
#include <harmonics/zk/network.h>

#include "msm.h"
#include "network_layout.h"
#include "shape.h"

namespace harmonics::inline in_zk {

std::size_t NetworkLayer::data_inputs() const {
  return (shape.inputs - constants.size()) * shape.pixels();
}
std::size_t NetworkLayer::data_outputs() const {
  return shape.outputs * shape.pixels() / (pool ? zk::kWindow : 1);
}

namespace {

// Differences of such sums, times factors, stay far below 2^62.
constexpr std::size_t kMaxPooledTerms = 2047;

std::string layer_problem(const NetworkLayer& layer) {
  if (layer.shape.batch != 1) return "its batch is not 1";
  if (const std::string problem = shape_problem(layer.shape); !problem.empty()) return problem;
  if (layer.constants.size() > kMaxNetworkConstants ||
      layer.constants.size() >= layer.shape.inputs) {
    return "too many of its inputs are constant";
  }
  const std::size_t pixels = layer.shape.pixels();
  if (layer.shape.inputs * pixels > zk::kMaxZkColumns ||
      layer.shape.outputs * pixels > zk::kMaxZkColumns) {
    return format("a sample has more than {} numbers", zk::kMaxZkColumns);
  }
  if (layer.pool && (layer.shape.kind != LinearShape::Kind::kConv3x3 ||
                     layer.shape.height % 2 != 0 || layer.shape.width % 2 != 0)) {
    return "only pictures of even height and width can be pooled";
  }
  if (layer.pool && layer.shape.weight_columns() > kMaxPooledTerms) {
    return format("sums of more than {} products cannot be pooled", kMaxPooledTerms);
  }
  return "";
}

}  // namespace

std::string network_problem(const NetworkLayers& layers) {
  if (layers.empty() || layers.size() > kMaxNetworkLayers) {
    return format("{} layers, 1 to {} are possible", layers.size(), kMaxNetworkLayers);
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (const std::string problem = layer_problem(layers[i]); !problem.empty()) {
      return format("layer {}: {}", i + 1, problem);
    }
    if (i > 0 && layers[i - 1].data_outputs() != layers[i].data_inputs()) {
      return format("layer {} takes {} numbers and layer {} gives {}", i + 1,
                    layers[i].data_inputs(), i, layers[i - 1].data_outputs());
    }
  }
  if (layers.back().pool || layers.back().relu) return "the last layer's sums are the outputs";
  return "";
}

}  // namespace harmonics::inline in_zk
