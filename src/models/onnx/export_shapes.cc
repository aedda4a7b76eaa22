// Layers that move numbers without computing, as nodes of ONNX.
#include <cstdint>

#include "onnx_exporter.h"

namespace harmonics::inline in_models {
namespace {

std::string write_identity(OnnxExporter& out, const WrittenLayer& layer) {
  return out.node("Identity", layer.inputs);
}

std::string write_flatten(OnnxExporter& out, const WrittenLayer& layer) {
  return out.node("Flatten", layer.inputs, {{"axis", std::int64_t{1}}});
}

// 0 stands for the batch as it is.
std::string write_reshape(OnnxExporter& out, const WrittenLayer& layer) {
  Shape shape = layer.query.list("shape");
  shape.insert(shape.begin(), 0);
  return out.node("Reshape", {layer.inputs[0], out.integers(shape)});
}

std::string write_concat(OnnxExporter& out, const WrittenLayer& layer) {
  return out.node("Concat", layer.inputs, {{"axis", layer.query.integer("axis") + 1}});
}

std::string write_transpose(OnnxExporter& out, const WrittenLayer& layer) {
  Shape order = {0};
  for (const std::int64_t axis : layer.query.list("axes")) order.push_back(axis + 1);
  return out.node("Transpose", layer.inputs, {{"perm", order}});
}

// An end beyond the axis means its end, in either direction.
std::string write_slice(OnnxExporter& out, const WrittenLayer& layer) {
  const LayerQuery& q = layer.query;
  const std::int64_t axis = q.integer("axis"), begin = q.integer("begin"), step = q.integer("step");
  std::int64_t end = step > 0 ? INT64_MAX : INT64_MIN;
  if (q.has("count")) {
    end = begin + q.integer("count") * step;
    if (begin >= 0 && end < 0) end = INT64_MIN;
    if (begin < 0 && end >= 0) end = INT64_MAX;
  }
  return out.node("Slice", {layer.inputs[0], out.integers({begin}), out.integers({end}),
                            out.integers({axis < 0 ? axis : axis + 1}), out.integers({step})});
}

std::string write_gather(OnnxExporter& out, const WrittenLayer& layer) {
  if (!layer.query.has("indices")) layer.refuse("each sample has indices of its own");
  const std::int64_t axis = layer.query.integer("axis");
  return out.node("Gather", {layer.inputs[0], out.integers(layer.query.list("indices"))},
                  {{"axis", axis < 0 ? axis : axis + 1}});
}

}  // namespace

OnnxLayerWriters onnx_shape_writers() {
  return {{"identity", write_identity}, {"dropout", write_identity}, {"flatten", write_flatten},
          {"reshape", write_reshape},   {"concat", write_concat},    {"transpose", write_transpose},
          {"slice", write_slice},       {"gather", write_gather}};
}

}  // namespace harmonics::inline in_models
