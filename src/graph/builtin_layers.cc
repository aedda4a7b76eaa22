// Shapes, parameters and costs of the layers that ship with Harmonics. Shapes leave out the batch
// axis; start values follow what PyTorch's layers of the same name do.
#include <algorithm>
#include <cmath>

#include <harmonics/base/format.h>

#include "builtin.h"

namespace harmonics::inline in_graph {
namespace {

AttributeSpec required(std::string name) { return {std::move(name), std::nullopt, true}; }
AttributeSpec optional(std::string name) { return {std::move(name), std::nullopt, false}; }
AttributeSpec with_default(std::string name, Attribute value) {
  return {std::move(name), std::move(value), false};
}

double elements(const Shape& shape) { return static_cast<double>(element_count(shape)); }

void need_rank(const LayerQuery& q, std::size_t rank, const char* axes) {
  if (q.inputs[0].shape.size() != rank) q.refuse(format("needs an input of shape {}", axes));
}

void need_floating(const LayerQuery& q) {
  for (const TensorSpec& input : q.inputs) {
    if (!is_floating(input.dtype)) q.refuse("needs a floating-point input");
  }
}

double kaiming_bound(std::int64_t fan_in) {
  return fan_in > 0 ? 1.0 / std::sqrt(static_cast<double>(fan_in)) : 0.0;
}

LayerShape infer_linear(const LayerQuery& q) {
  need_floating(q);
  if (q.inputs[0].shape.empty()) q.refuse("needs an input with at least one axis");
  const std::int64_t in = q.inputs[0].shape.back();
  const std::int64_t out = q.integer("out", 1);
  LayerShape result;
  result.output = q.inputs[0];
  result.output.shape.back() = out;
  result.parameters.push_back({"weight", {out, in}, Init::kUniform, kaiming_bound(in)});
  if (q.integer("bias") != 0) {
    result.parameters.push_back({"bias", {out}, Init::kUniform, kaiming_bound(in)});
  }
  result.flops = 2.0 * elements(result.output.shape) * static_cast<double>(in);
  return result;
}

// One value for both axes, or a list of two.
Shape pair_of(const LayerQuery& q, std::string_view name, std::int64_t minimum) {
  Shape value = q.list(name);
  if (value.size() == 1) value.push_back(value[0]);
  if (value.size() != 2 || value[0] < minimum || value[1] < minimum || value[0] > 1'000'000 ||
      value[1] > 1'000'000) {
    q.refuse(format("'{}' must be one or two numbers of at least {}", name, minimum));
  }
  return value;
}

// Height and width after a window slides over {C, H, W}.
Shape window_output(const LayerQuery& q, const Shape& kernel, const Shape& stride,
                    const Shape& padding) {
  Shape out;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t size = q.inputs[0].shape[axis + 1] + 2 * padding[axis];
    if (size < kernel[axis]) {
      q.refuse(format("a window of {} does not fit in {} (with padding)", kernel[axis], size));
    }
    out.push_back((size - kernel[axis]) / stride[axis] + 1);
  }
  return out;
}

LayerShape infer_conv2d(const LayerQuery& q) {
  need_floating(q);
  need_rank(q, 3, "{channels, height, width}");
  const std::int64_t in = q.inputs[0].shape[0];
  const std::int64_t out = q.integer("out", 1);
  const std::int64_t groups = q.integer("groups", 1);
  if (in % groups != 0 || out % groups != 0) {
    q.refuse(format("groups={} must divide the input's {} and the output's {} channels", groups, in,
                    out));
  }
  const Shape kernel = pair_of(q, "kernel", 1);
  const Shape size = window_output(q, kernel, pair_of(q, "stride", 1), pair_of(q, "padding", 0));
  const std::int64_t fan_in = element_count({in / groups, kernel[0], kernel[1]});
  LayerShape result;
  result.output = {{out, size[0], size[1]}, q.inputs[0].dtype};
  result.parameters.push_back(
      {"weight", {out, in / groups, kernel[0], kernel[1]}, Init::kUniform, kaiming_bound(fan_in)});
  if (q.integer("bias") != 0) {
    result.parameters.push_back({"bias", {out}, Init::kUniform, kaiming_bound(fan_in)});
  }
  result.flops = 2.0 * elements(result.output.shape) * static_cast<double>(fan_in);
  return result;
}

LayerShape infer_pool(const LayerQuery& q) {
  need_floating(q);
  need_rank(q, 3, "{channels, height, width}");
  const Shape kernel = pair_of(q, "kernel", 1);
  const Shape stride = q.has("stride") ? pair_of(q, "stride", 1) : kernel;
  const Shape padding = pair_of(q, "padding", 0);
  if (2 * padding[0] > kernel[0] || 2 * padding[1] > kernel[1]) {
    q.refuse("padding must be at most half of the kernel");
  }
  const Shape size = window_output(q, kernel, stride, padding);
  LayerShape result;
  result.output = {{q.inputs[0].shape[0], size[0], size[1]}, q.inputs[0].dtype};
  result.flops = elements(result.output.shape) * static_cast<double>(kernel[0] * kernel[1]);
  return result;
}

LayerShape infer_adaptive_pool(const LayerQuery& q) {
  need_floating(q);
  need_rank(q, 3, "{channels, height, width}");
  const Shape size = pair_of(q, "size", 1);
  LayerShape result;
  result.output = {{q.inputs[0].shape[0], size[0], size[1]}, q.inputs[0].dtype};
  result.flops = elements(q.inputs[0].shape);
  return result;
}

LayerShape infer_flatten(const LayerQuery& q) {
  return {{{element_count(q.inputs[0].shape)}, q.inputs[0].dtype}, {}, 0};
}

LayerShape infer_reshape(const LayerQuery& q) {
  Shape shape = q.list("shape");
  const std::int64_t size = element_count(q.inputs[0].shape);
  std::int64_t known = 1;
  int unknown = 0;
  for (const std::int64_t axis : shape) {
    if (axis == -1) {
      ++unknown;
    } else if (axis < 0 || (axis != 0 && known > size / axis && size > 0)) {
      q.refuse(format("cannot be reshaped to {}", shape_text(shape)));
    } else {
      known *= axis;
    }
  }
  if (unknown == 1 && known > 0 && size % known == 0) {
    *std::find(shape.begin(), shape.end(), -1) = size / known;
  } else if (unknown != 0 || known != size) {
    q.refuse(format("cannot be reshaped to {}", shape_text(shape)));
  }
  return {{shape, q.inputs[0].dtype}, {}, 0};
}

LayerShape infer_batch_norm(const LayerQuery& q) {
  need_floating(q);
  const std::size_t rank = q.inputs[0].shape.size();
  if (rank != 1 && rank != 3)
    q.refuse("needs an input of shape {features} or {channels, height, width}");
  const std::int64_t channels = q.inputs[0].shape[0];
  LayerShape result{q.inputs[0], {}, 8.0 * elements(q.inputs[0].shape)};
  result.parameters = {{"weight", {channels}, Init::kConstant, 1},
                       {"bias", {channels}, Init::kConstant, 0},
                       {"running_mean", {channels}, Init::kConstant, 0, false},
                       {"running_var", {channels}, Init::kConstant, 1, false}};
  return result;
}

LayerShape infer_layer_norm(const LayerQuery& q) {
  need_floating(q);
  if (q.inputs[0].shape.empty()) q.refuse("needs an input with at least one axis");
  const std::int64_t width = q.inputs[0].shape.back();
  LayerShape result{q.inputs[0], {}, 8.0 * elements(q.inputs[0].shape)};
  result.parameters = {{"weight", {width}, Init::kConstant, 1},
                       {"bias", {width}, Init::kConstant, 0}};
  return result;
}

LayerShape infer_dropout(const LayerQuery& q) {
  need_floating(q);
  const double p = q.number("p");
  if (!(p >= 0 && p < 1)) q.refuse(format("'p' must be at least 0 and below 1, not {}", p));
  return {q.inputs[0], {}, elements(q.inputs[0].shape)};
}

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

LayerShape infer_elementwise(const LayerQuery& q) {
  need_floating(q);
  for (const TensorSpec& input : q.inputs) {
    if (input != q.inputs[0]) {
      q.refuse(format("all inputs must agree, but {} is not {}", spec_text(input),
                      spec_text(q.inputs[0])));
    }
  }
  return {q.inputs[0], {}, elements(q.inputs[0].shape) * static_cast<double>(q.inputs.size() - 1)};
}

LayerShape infer_concat(const LayerQuery& q) {
  const std::size_t rank = q.inputs[0].shape.size();
  const std::int64_t axis = q.integer("axis");
  if (rank == 0 || axis < 0 || axis >= static_cast<std::int64_t>(rank)) {
    q.refuse(format("axis={} is not an axis of the input (the batch axis does not count)", axis));
  }
  TensorSpec out = q.inputs[0];
  for (std::size_t i = 1; i < q.inputs.size(); ++i) {
    Shape rest = q.inputs[i].shape;
    if (rest.size() != rank || q.inputs[i].dtype != out.dtype) q.refuse("the inputs do not fit");
    const std::int64_t grow = rest[axis];
    rest[axis] = q.inputs[0].shape[axis];
    if (rest != q.inputs[0].shape) q.refuse(format("the inputs must agree outside axis {}", axis));
    out.shape[axis] += grow;
  }
  return {out, {}, 0};
}

LayerShape infer_identity(const LayerQuery& q) { return {q.inputs[0], {}, 0}; }

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
  return {q.inputs[0],
          {{"weight", q.inputs[0].shape, Init::kNormal, 0.02}},
          elements(q.inputs[0].shape)};
}

LayerShape infer_select(const LayerQuery& q) {
  if (q.inputs[0].shape.empty()) q.refuse("needs an input with at least one axis");
  const std::int64_t index = q.integer("index");
  if (index < 0 || index >= q.inputs[0].shape[0]) {
    q.refuse(format("index={} is outside the first axis", index));
  }
  return {
      {Shape(q.inputs[0].shape.begin() + 1, q.inputs[0].shape.end()), q.inputs[0].dtype}, {}, 0};
}

LayerShape infer_mean(const LayerQuery& q) {
  need_floating(q);
  need_rank(q, 2, "{length, width}");
  return {{{q.inputs[0].shape[1]}, q.inputs[0].dtype}, {}, elements(q.inputs[0].shape)};
}

std::vector<LayerType> window_layer_types() {
  const std::vector<AttributeSpec> pool = {required("kernel"), optional("stride"),
                                           with_default("padding", std::int64_t{0})};
  return {
      {"conv2d",
       {required("out"), required("kernel"), with_default("stride", std::int64_t{1}),
        with_default("padding", std::int64_t{0}), with_default("groups", std::int64_t{1}),
        with_default("bias", std::int64_t{1})},
       1,
       1,
       infer_conv2d},
      {"max_pool", pool, 1, 1, infer_pool},
      {"avg_pool", pool, 1, 1, infer_pool},
      {"adaptive_avg_pool", {required("size")}, 1, 1, infer_adaptive_pool},
      {"adaptive_max_pool", {required("size")}, 1, 1, infer_adaptive_pool},
  };
}

}  // namespace

std::vector<LayerType> builtin_layer_types() {
  constexpr std::size_t kMany = 1024;
  std::vector<LayerType> types = window_layer_types();
  types.insert(
      types.end(),
      {
          {"linear", {optional("out"), with_default("bias", std::int64_t{1})}, 1, 1, infer_linear},
          {"flatten", {}, 1, 1, infer_flatten},
          {"reshape", {required("shape")}, 1, 1, infer_reshape},
          {"batch_norm",
           {with_default("eps", 1e-5), with_default("momentum", 0.1)},
           1,
           1,
           infer_batch_norm},
          {"layer_norm", {with_default("eps", 1e-5)}, 1, 1, infer_layer_norm},
          {"dropout", {with_default("p", 0.5)}, 1, 1, infer_dropout},
          {"embedding",
           {required("rows"), required("width"), with_default("scale", 1.0)},
           1,
           1,
           infer_embedding},
          {"attention",
           {required("heads"), with_default("causal", std::int64_t{0}),
            with_default("project", std::int64_t{1})},
           1,
           1,
           infer_attention},
          {"add", {}, 2, kMany, infer_elementwise},
          {"mul", {}, 2, kMany, infer_elementwise},
          {"concat", {with_default("axis", std::int64_t{0})}, 2, kMany, infer_concat},
          {"identity", {}, 1, 1, infer_identity},
          {"tokens", {}, 1, 1, infer_tokens},
          {"class_token", {}, 1, 1, infer_class_token},
          {"position", {}, 1, 1, infer_position},
          {"select", {with_default("index", std::int64_t{0})}, 1, 1, infer_select},
          {"mean", {}, 1, 1, infer_mean},
      });
  return types;
}

std::vector<ActivationType> builtin_activation_types() {
  std::vector<ActivationType> types;
  for (const char* name : {"relu", "sigmoid", "tanh", "gelu", "selu", "softmax", "silu"}) {
    types.push_back({name, {}});
  }
  types.push_back({"prelu", {{"weight", {1}, Init::kConstant, 0.25}}});
  return types;
}

namespace {

std::string same_shape(const TensorSpec& prediction, const TensorSpec& target) {
  if (!is_floating(target.dtype)) return "the target must be floating-point";
  if (prediction.shape != target.shape) return "the shapes must be equal";
  return {};
}

// Class ids {…} or {…, 1} for a prediction {…, classes}, or probabilities of the prediction's
// shape.
std::string check_cross_entropy(const TensorSpec& prediction, const TensorSpec& target) {
  if (prediction.shape.empty()) return "the prediction needs an axis of classes";
  if (is_floating(target.dtype)) {
    if (prediction.shape == target.shape) return {};
    return "a floating-point target holds probabilities and needs the prediction's shape; declare "
           "class ids as int64";
  }
  Shape ids(prediction.shape.begin(), prediction.shape.end() - 1);
  if (target.shape == ids) return {};
  ids.push_back(1);
  if (target.shape == ids) return {};
  return "integer targets are class ids: the prediction's shape without its last axis";
}

}  // namespace

std::vector<LossType> builtin_loss_types() {
  return {{"cross_entropy", check_cross_entropy}, {"mse", same_shape}, {"bce", same_shape}};
}

}  // namespace harmonics::inline in_graph
