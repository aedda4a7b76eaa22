// Attention.
#include <harmonics/base/format.h>

#include "builtin.h"
#include "builtin_attributes.h"

namespace harmonics::inline in_graph {
namespace {

LayerShape infer_attention(const LayerQuery& q) {
  need_floating(q);
  need_rank(q, 2, "{length, width}");
  const std::int64_t length = q.inputs[0].shape[0];
  const std::int64_t width = q.inputs[0].shape[1];
  const std::int64_t heads = q.integer("heads", 1);
  if (width % heads != 0) q.refuse(format("heads={} must divide the width {}", heads, width));
  const double bound = kaiming_bound(width);
  LayerShape result{q.inputs[0], {}, 0};
  result.parameters = {{"qkv.weight", {3 * width, width}, Init::kUniform, bound},
                       {"qkv.bias", {3 * width}, Init::kUniform, bound}};
  const auto n = static_cast<double>(length);
  const auto d = static_cast<double>(width);
  result.flops = 6.0 * n * d * d + 4.0 * n * n * d;
  if (q.integer("project") != 0) {
    result.parameters.push_back({"out.weight", {width, width}, Init::kUniform, bound});
    result.parameters.push_back({"out.bias", {width}, Init::kUniform, bound});
    result.flops += 2.0 * n * d * d;
  }
  return result;
}

}  // namespace

std::vector<LayerType> attention_layer_types() {
  return {
      {"attention",
       {required("heads"), with_default("causal", std::int64_t{0}),
        with_default("project", std::int64_t{1})},
       1,
       1,
       infer_attention},
  };
}

}  // namespace harmonics::inline in_graph
