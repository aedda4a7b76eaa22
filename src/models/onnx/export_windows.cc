// Layers that slide a window over an image, and products with a matrix, as nodes of ONNX.
#include <algorithm>

#include "onnx_exporter.h"

namespace harmonics::inline in_models {
namespace {

Shape per_axis(const LayerQuery& q, std::string_view name, std::size_t axes,
               std::int64_t otherwise = 1) {
  Shape value = q.has(name) ? q.list(name) : Shape{otherwise};
  value.resize(axes, value[0]);
  return value;
}

// One number, one per axis, or one per side: {before…, after…} as ONNX wants it.
Shape pads_of(const LayerQuery& q, std::size_t axes) {
  Shape pads = q.list("padding");
  if (pads.size() == 2 * axes) return pads;
  pads.resize(axes, pads[0]);
  const Shape before = pads;
  pads.insert(pads.end(), before.begin(), before.end());
  return pads;
}

std::vector<std::string> with_parameters(OnnxExporter& out, const WrittenLayer& layer) {
  const DType dtype = layer.shape.output.dtype;
  std::vector<std::string> inputs = {layer.inputs[0], out.parameter(layer, "weight", dtype)};
  if (layer.query.integer("bias") != 0) inputs.push_back(out.parameter(layer, "bias", dtype));
  return inputs;
}

std::string write_linear(OnnxExporter& out, const WrittenLayer& layer) {
  const DType dtype = layer.shape.output.dtype;
  if (layer.rank() == 1)
    return out.node("Gemm", with_parameters(out, layer), {{"transB", std::int64_t{1}}});
  const std::string weight =
      out.node("Transpose", {out.parameter(layer, "weight", dtype)}, {{"perm", Shape{1, 0}}});
  const std::string product = out.node("MatMul", {layer.inputs[0], weight});
  if (layer.query.integer("bias") == 0) return product;
  return out.node("Add", {product, out.parameter(layer, "bias", dtype)});
}

std::string write_convolution(OnnxExporter& out, const WrittenLayer& layer) {
  const std::size_t axes = layer.rank() - 1;
  const LayerQuery& q = layer.query;
  Attributes attributes = {{"kernel_shape", per_axis(q, "kernel", axes)},
                           {"strides", per_axis(q, "stride", axes)},
                           {"dilations", per_axis(q, "dilation", axes)},
                           {"pads", pads_of(q, axes)},
                           {"group", q.integer("groups")}};
  const bool is_turned = layer.node.type == "conv_transpose2d";
  if (is_turned) attributes["output_padding"] = per_axis(q, "output_padding", axes);
  return out.node(is_turned ? "ConvTranspose" : "Conv", with_parameters(out, layer),
                  std::move(attributes));
}

std::string write_pool(OnnxExporter& out, const WrittenLayer& layer) {
  const LayerQuery& q = layer.query;
  const Shape kernel = per_axis(q, "kernel", 2);
  Attributes attributes = {{"kernel_shape", kernel},
                           {"strides", q.has("stride") ? per_axis(q, "stride", 2) : kernel},
                           {"pads", pads_of(q, 2)},
                           {"ceil_mode", std::int64_t{q.integer_or("round_up", 0) != 0}}};
  if (layer.node.type == "max_pool") {
    attributes["dilations"] = per_axis(q, "dilation", 2);
    return out.node("MaxPool", {layer.inputs[0]}, std::move(attributes));
  }
  attributes["count_include_pad"] = std::int64_t{q.integer_or("count_padding", 1) != 0};
  return out.node("AveragePool", {layer.inputs[0]}, std::move(attributes));
}

// A size that divides the image is a plain pool.
std::string write_adaptive_pool(OnnxExporter& out, const WrittenLayer& layer) {
  const bool is_max = layer.node.type == "adaptive_max_pool";
  const Shape size = per_axis(layer.query, "size", 2);
  const std::string& x = layer.inputs[0];
  if (size == Shape{1, 1}) return out.node(is_max ? "GlobalMaxPool" : "GlobalAveragePool", {x});
  const Shape& in = layer.input().shape;
  if (in[1] % size[0] != 0 || in[2] % size[1] != 0 ||
      !out.graph().named_extents(layer.node.inputs[0]).empty()) {
    layer.refuse(format("windows of unequal size from {} to {}", shape_text(in), shape_text(size)));
  }
  const Shape window = {in[1] / size[0], in[2] / size[1]};
  return out.node(is_max ? "MaxPool" : "AveragePool", {x},
                  {{"kernel_shape", window}, {"strides", window}});
}

std::string write_pad(OnnxExporter& out, const WrittenLayer& layer) {
  const LayerQuery& q = layer.query;
  if (q.text("mode") == "wrap") layer.refuse("mode=wrap needs opset 19");
  Shape pads = {0};
  for (const std::int64_t side : q.list("before")) pads.push_back(side);
  pads.push_back(0);
  for (const std::int64_t side : q.list("after")) pads.push_back(side);
  return out.node(
      "Pad",
      {layer.inputs[0], out.integers(pads), out.number(q.number("value"), layer.input().dtype)},
      {{"mode", q.text("mode")}});
}

std::string write_resize(OnnxExporter& out, const WrittenLayer& layer) {
  const LayerQuery& q = layer.query;
  if (q.integer_or("antialias", 0) != 0 || q.text("places") == "half_pixel_symmetric")
    layer.refuse("antialias and half_pixel_symmetric need opset 18 or 19");
  const Shape size = per_axis(q, "size", 2);
  Attributes attributes = {{"mode", q.text("mode")},
                           {"coordinate_transformation_mode", q.text("places")},
                           {"nearest_mode", q.text("rounding")}};
  if (q.has("cubic")) attributes["cubic_coeff_a"] = q.number("cubic");
  if (q.integer_or("inside_only", 0) != 0) attributes["exclude_outside"] = std::int64_t{1};
  if (q.has("scale_y") || q.has("scale_x")) {
    std::vector<double> scales = {1, 1};
    const char* const names[] = {"scale_y", "scale_x"};
    for (std::size_t i = 0; i < 2; ++i) {
      const auto plain =
          static_cast<double>(size[i]) / static_cast<double>(layer.input().shape[i + 1]);
      scales.push_back(q.number_or(names[i], plain));
    }
    const std::string factors =
        out.constant(layer.node.name + ".scales", Constant::of_reals({4}, scales));
    return out.node("Resize", {layer.inputs[0], "", factors}, std::move(attributes));
  }
  const std::string kept =
      out.node("Shape", {layer.inputs[0]}, {{"start", std::int64_t{0}}, {"end", std::int64_t{2}}});
  const std::string sizes =
      out.node("Concat", {kept, out.integers(size)}, {{"axis", std::int64_t{0}}});
  return out.node("Resize", {layer.inputs[0], "", "", sizes}, std::move(attributes));
}

}  // namespace

OnnxLayerWriters onnx_window_writers() {
  return {{"linear", write_linear},
          {"conv1d", write_convolution},
          {"conv2d", write_convolution},
          {"conv_transpose2d", write_convolution},
          {"max_pool", write_pool},
          {"avg_pool", write_pool},
          {"adaptive_avg_pool", write_adaptive_pool},
          {"adaptive_max_pool", write_adaptive_pool},
          {"pad", write_pad},
          {"resize", write_resize}};
}

}  // namespace harmonics::inline in_models
