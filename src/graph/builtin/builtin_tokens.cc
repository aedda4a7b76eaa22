// Layers of sequences: ids to rows, rows of an image, places, and one row out of many.
#include <harmonics/base/format.h>

#include "builtin.h"
#include "builtin_attributes.h"

namespace harmonics::inline in_graph {
namespace {

LayerShape infer_embedding(const LayerQuery& q) {
  if (is_floating(q.inputs[0].dtype) || q.inputs[0].dtype == DType::kBool) {
    q.refuse("needs integer ids; declare the producer as int64");
  }
  const std::int64_t rows = q.integer("rows", 1);
  const std::int64_t width = q.integer("width", 1);
  LayerShape result;
  result.output = {q.inputs[0].shape, DType::kFloat32};
  result.output.shape.push_back(width);
  result.parameters.push_back({"weight", {rows, width}, Init::kNormal, q.number("scale")});
  result.flops = elements(result.output.shape);
  return result;
}

LayerShape infer_tokens(const LayerQuery& q) {
  need_rank(q, 3, "{channels, height, width}");
  const Shape& in = q.inputs[0].shape;
  return {{{in[1] * in[2], in[0]}, q.inputs[0].dtype}, {}, 0};
}

LayerShape infer_class_token(const LayerQuery& q) {
  need_floating(q);
  need_rank(q, 2, "{length, width}");
  LayerShape result{q.inputs[0], {}, 0};
  result.output.shape[0] += 1;
  result.parameters = {{"weight", {q.inputs[0].shape[1]}, Init::kNormal, 0.02}};
  return result;
}

LayerShape infer_position(const LayerQuery& q) {
  need_floating(q);
  need_rank(q, 2, "{length, width}");
  Shape weight = q.inputs[0].shape;
  if (q.has("rows")) {
    const std::int64_t length = weight[0], offset = q.has("offset") ? q.integer("offset", 0) : 0;
    weight[0] = q.integer("rows", 1);
    if (offset + length > weight[0]) {
      q.refuse(
          format("rows={} does not hold {} places from offset={} on", weight[0], length, offset));
    }
  } else if (q.has("offset")) {
    q.refuse("'offset' needs 'rows'");
  }
  return {q.inputs[0],
          {{"weight", std::move(weight), Init::kNormal, 0.02}},
          elements(q.inputs[0].shape)};
}

LayerShape infer_select(const LayerQuery& q) {
  need_an_axis(q);
  const std::int64_t index = q.integer("index"), rows = q.inputs[0].shape[0];
  if (index < -rows || index >= rows) q.refuse(format("index={} is outside the first axis", index));
  return {
      {Shape(q.inputs[0].shape.begin() + 1, q.inputs[0].shape.end()), q.inputs[0].dtype}, {}, 0};
}

LayerShape infer_mean(const LayerQuery& q) {
  need_floating_first(q);
  need_rank(q, 2, "{length, width}");
  check_row_mask(q);
  return {{{q.inputs[0].shape[1]}, q.inputs[0].dtype}, {}, elements(q.inputs[0].shape)};
}

}  // namespace

std::vector<LayerType> token_layer_types() {
  return {
      {"embedding",
       {required("rows"), required("width"), with_default("scale", 1.0)},
       1,
       1,
       infer_embedding},
      {"tokens", {}, 1, 1, infer_tokens},
      {"class_token", {}, 1, 1, infer_class_token},
      {"position", {optional("rows"), optional("offset")}, 1, 1, infer_position},
      {"select", {with_default("index", std::int64_t{0})}, 1, 1, infer_select},
      {"mean", {}, 1, 2, infer_mean},
  };
}

}  // namespace harmonics::inline in_graph
