#include <ATen/ATen.h>

#include <algorithm>

#include "kernel_casts.h"
#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

using UnaryFunction = at::Tensor (*)(const at::Tensor&);

const std::map<std::string, UnaryFunction>& unary_functions() {
  using T = at::Tensor;
  static const std::map<std::string, UnaryFunction> kFunctions = {
      {"exp", [](const T& x) { return at::exp(x); }},
      {"log", [](const T& x) { return at::log(x); }},
      {"sqrt", [](const T& x) { return at::sqrt(x); }},
      {"abs", [](const T& x) { return at::abs(x); }},
      {"neg", [](const T& x) { return at::neg(x); }},
      {"reciprocal", [](const T& x) { return at::reciprocal(x); }},
      {"floor", [](const T& x) { return at::floor(x); }},
      {"ceil", [](const T& x) { return at::ceil(x); }},
      {"round", [](const T& x) { return at::round(x); }},
      {"erf", [](const T& x) { return at::erf(x); }},
      {"sin", [](const T& x) { return at::sin(x); }},
      {"cos", [](const T& x) { return at::cos(x); }},
      {"sign", [](const T& x) { return at::sign(x); }},
      {"softplus", [](const T& x) { return at::softplus(x); }},
      {"hard_swish", [](const T& x) { return at::hardswish(x); }},
      {"mish", [](const T& x) { return at::mish(x); }},
      {"not", [](const T& x) { return at::logical_not(x); }}};
  return kFunctions;
}

LayerForward make_dropout(const LayerQuery& q) {
  return [p = q.number("p")](const LayerCall& call) {
    return call.training && p > 0 ? counter_dropout(call.inputs[0], p, call)
                                  : at::alias(call.inputs[0]);
  };
}

LayerForward make_function(const LayerQuery& q) {
  return [function = unary_functions().at(q.text("of"))](const LayerCall& call) {
    return function(call.inputs[0]);
  };
}

// A bound of whole numbers is whole, so that they keep their dtype.
at::Scalar bound_of(double value, const at::Tensor& x) {
  if (at::isFloatingType(x.scalar_type())) return value;
  constexpr double kLargest = 9e18;
  return static_cast<std::int64_t>(std::clamp(value, -kLargest, kLargest));
}

LayerForward make_clip(const LayerQuery& q) {
  const bool low = q.has("min"), high = q.has("max");
  return
      [low, high, min = q.number_or("min", 0), max = q.number_or("max", 0)](const LayerCall& call) {
        const at::Tensor& given = call.inputs[0];
        const at::Tensor x = low ? given.clamp_min(bound_of(min, given)) : given;
        return high ? x.clamp_max(bound_of(max, given)) : x;
      };
}

LayerForward make_hard_sigmoid(const LayerQuery& q) {
  return [alpha = q.number("alpha"), beta = q.number("beta")](const LayerCall& call) {
    return (call.inputs[0] * alpha + beta).clamp(0, 1);
  };
}

LayerForward make_leaky_relu(const LayerQuery& q) {
  return [slope = q.number("slope")](const LayerCall& call) {
    return at::leaky_relu(call.inputs[0], slope);
  };
}

LayerForward make_elu(const LayerQuery& q) {
  return
      [alpha = q.number("alpha")](const LayerCall& call) { return at::elu(call.inputs[0], alpha); };
}

LayerForward make_softmax(const LayerQuery& q) {
  return [axis = batch_axis(q.integer("axis"))](const LayerCall& call) {
    return at::softmax(in_full(call.inputs[0]), axis);
  };
}

LayerForward make_cast(const LayerQuery& q) {
  return
      [to = scalar_type_of(q.text("to"))](const LayerCall& call) { return as(call.inputs[0], to); };
}

}  // namespace

LayerKernels function_kernels() {
  return {{"dropout", make_dropout},
          {"function", make_function},
          {"clip", make_clip},
          {"hard_sigmoid", make_hard_sigmoid},
          {"leaky_relu", make_leaky_relu},
          {"elu", make_elu},
          {"softmax", make_softmax},
          {"cast", make_cast}};
}

}  // namespace harmonics::inline in_runtime
