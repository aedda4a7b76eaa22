// Norms and activations as nodes of ONNX.
#include <cmath>
#include <numbers>

#include <harmonics/base/error.h>

#include "onnx_exporter.h"

namespace harmonics::inline in_models {
namespace {

// Parameters of norms: weight and bias, and what else is named.
std::vector<std::string> with_named(OnnxExporter& out, const WrittenLayer& layer,
                                    std::initializer_list<const char*> names) {
  std::vector<std::string> inputs = {layer.inputs[0]};
  for (const char* name : names)
    inputs.push_back(out.parameter(layer, name, layer.shape.output.dtype));
  return inputs;
}

std::string write_batch_norm(OnnxExporter& out, const WrittenLayer& layer) {
  return out.node("BatchNormalization",
                  with_named(out, layer, {"weight", "bias", "running_mean", "running_var"}),
                  {{"epsilon", layer.query.number("eps")}});
}

std::string write_layer_norm(OnnxExporter& out, const WrittenLayer& layer) {
  return out.node("LayerNormalization", with_named(out, layer, {"weight", "bias"}),
                  {{"axis", std::int64_t{-1}}, {"epsilon", layer.query.number("eps")}});
}

std::string write_instance_norm(OnnxExporter& out, const WrittenLayer& layer) {
  return out.node("InstanceNormalization", with_named(out, layer, {"weight", "bias"}),
                  {{"epsilon", layer.query.number("eps")}});
}

// Groups as the channels of an instance norm, then a factor and an addend per channel.
std::string write_group_norm(OnnxExporter& out, const WrittenLayer& layer) {
  const std::int64_t groups = layer.query.integer("groups");
  const DType dtype = layer.shape.output.dtype;
  const Shape& in = layer.input().shape;
  const std::string seen = out.node("Reshape", {layer.inputs[0], out.integers({0, groups, -1})});
  const auto filled = [&](const char* name, double value) {
    const std::vector<double> numbers(static_cast<std::size_t>(groups), value);
    return out.constant(layer.node.name + name, Constant::of_reals({groups}, numbers, dtype));
  };
  const std::string even =
      out.node("InstanceNormalization", {seen, filled(".ones", 1), filled(".zeros", 0)},
               {{"epsilon", layer.query.number("eps")}});
  if (!out.graph().named_extents(layer.node.inputs[0]).empty())
    layer.refuse("its input follows a named axis");
  Shape back = in;
  back.insert(back.begin(), 0);
  Shape per_channel(in.size(), 1);
  per_channel[0] = in[0];
  const auto wide = [&](const char* name) {
    return out.node("Reshape", {out.parameter(layer, name, dtype), out.integers(per_channel)});
  };
  const std::string normed = out.node("Reshape", {even, out.integers(back)});
  return out.node("Add", {out.node("Mul", {normed, wide("weight")}), wide("bias")});
}

std::string write_local_response_norm(OnnxExporter& out, const WrittenLayer& layer) {
  const LayerQuery& q = layer.query;
  return out.node("LRN", {layer.inputs[0]},
                  {{"size", q.integer("size")},
                   {"alpha", q.number("alpha")},
                   {"beta", q.number("beta")},
                   {"bias", q.number("k")}});
}

std::string write_rms_norm(OnnxExporter& out, const WrittenLayer& layer) {
  const DType dtype = layer.shape.output.dtype;
  const std::string& x = layer.inputs[0];
  const std::string mean = out.node("ReduceMean", {out.node("Mul", {x, x})}, {{"axes", Shape{-1}}});
  const std::string wide = out.node("Add", {mean, out.number(layer.query.number("eps"), dtype)});
  const std::string normed = out.node("Div", {x, out.node("Sqrt", {wide})});
  return out.node("Mul", {normed, out.parameter(layer, "weight", dtype)});
}

std::string write_normalize(OnnxExporter& out, const WrittenLayer& layer) {
  const std::string length = out.node("ReduceL2", {layer.inputs[0]}, {{"axes", Shape{-1}}});
  const std::string least = out.number(layer.query.number("eps"), layer.shape.output.dtype);
  return out.node("Div", {layer.inputs[0], out.node("Max", {length, least})});
}

std::string write_gelu(OnnxExporter& out, const std::string& x) {
  const std::string turned = out.node("Div", {x, out.number(std::numbers::sqrt2)});
  const std::string part = out.node("Add", {out.node("Erf", {turned}), out.number(1)});
  return out.node("Mul", {out.node("Mul", {x, part}), out.number(0.5)});
}

std::string write_gelu_tanh(OnnxExporter& out, const std::string& x) {
  const std::string cube = out.node("Mul", {out.node("Mul", {x, x}), x});
  const std::string inner = out.node("Add", {x, out.node("Mul", {cube, out.number(0.044715)})});
  const std::string bent =
      out.node("Tanh", {out.node("Mul", {inner, out.number(std::sqrt(2 / std::numbers::pi))})});
  const std::string part = out.node("Add", {bent, out.number(1)});
  return out.node("Mul", {out.node("Mul", {x, part}), out.number(0.5)});
}

}  // namespace

std::string OnnxExporter::activated(const std::string& value, const std::string& activation,
                                    const std::string& owner) {
  static const std::map<std::string_view, const char*> kPlain = {
      {"relu", "Relu"}, {"sigmoid", "Sigmoid"}, {"tanh", "Tanh"}, {"selu", "Selu"}};
  if (activation.empty()) return value;
  if (const auto plain = kPlain.find(activation); plain != kPlain.end())
    return node(plain->second, {value});
  if (activation == "softmax") return node("Softmax", {value}, {{"axis", std::int64_t{-1}}});
  if (activation == "silu") return node("Mul", {value, node("Sigmoid", {value})});
  if (activation == "quick_gelu")
    return node("Mul", {value, node("Sigmoid", {node("Mul", {value, number(1.702)})})});
  if (activation == "gelu") return write_gelu(*this, value);
  if (activation == "gelu_tanh") return write_gelu_tanh(*this, value);
  fail(ErrorCode::kUnimplemented, "activation '{}' of '{}' has no spelling in ONNX", activation,
       owner);
}

OnnxLayerWriters onnx_norm_writers() {
  return {{"batch_norm", write_batch_norm},
          {"layer_norm", write_layer_norm},
          {"instance_norm", write_instance_norm},
          {"group_norm", write_group_norm},
          {"local_response_norm", write_local_response_norm},
          {"rms_norm", write_rms_norm},
          {"normalize", write_normalize}};
}

}  // namespace harmonics::inline in_models
