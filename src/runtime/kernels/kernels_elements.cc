#include <ATen/ATen.h>

#include <algorithm>

#include "kernel_casts.h"
#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

using BinaryOperation = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

// The constant and the input, which has at least as many axes behind the batch's.
struct Operands {
  at::Tensor x, value;

  explicit Operands(const LayerCall& call)
      : value(as(call.parameters[0], call.inputs[0].scalar_type())) {
    x = aligned(call.inputs[0], std::max(call.inputs[0].dim(), value.dim() + 1));
  }
};

at::Tensor combined(const LayerCall& call, BinaryOperation operation) {
  const std::int64_t axes = most_axes(call.inputs);
  at::Tensor result = aligned(call.inputs[0], axes);
  for (const at::Tensor& input : call.inputs.subspan(1)) {
    result = operation(result, aligned(input, axes));
  }
  return result;
}

// Inputs in their order; with a constant, the input and the layer's value.
TorchLayer combining(BinaryOperation operation) {
  return [operation](const LayerQuery& q) -> LayerForward {
    if (!q.has("constant")) {
      return [operation](const LayerCall& call) { return combined(call, operation); };
    }
    return [operation, reverse = q.integer_or("reverse", 0) != 0](const LayerCall& call) {
      const Operands o(call);
      return reverse ? operation(o.value, o.x) : operation(o.x, o.value);
    };
  };
}

// Whole numbers are divided towards zero and stay whole.
at::Tensor quotient(const at::Tensor& a, const at::Tensor& b) {
  return at::isFloatingType(a.scalar_type()) ? a / b : at::div(a, b, "trunc");
}

LayerForward make_compare(const LayerQuery& q) {
  using T = at::Tensor;
  static const std::map<std::string, BinaryOperation> kOperations = {
      {"equal", [](const T& a, const T& b) { return a.eq(b); }},
      {"not_equal", [](const T& a, const T& b) { return a.ne(b); }},
      {"less", [](const T& a, const T& b) { return a.lt(b); }},
      {"less_or_equal", [](const T& a, const T& b) { return a.le(b); }},
      {"greater", [](const T& a, const T& b) { return a.gt(b); }},
      {"greater_or_equal", [](const T& a, const T& b) { return a.ge(b); }}};
  return combining(kOperations.at(q.text("op")))(q);
}

LayerForward make_where(const LayerQuery&) {
  return [](const LayerCall& call) {
    const std::int64_t axes = most_axes(call.inputs);
    return at::where(aligned(call.inputs[0], axes).ne(0), aligned(call.inputs[1], axes),
                     aligned(call.inputs[2], axes));
  };
}

// One row, whatever the batch.
LayerForward make_weight(const LayerQuery& /*q*/) {
  return [](const LayerCall& call) { return call.parameters[0].unsqueeze(0); };
}

LayerForward make_constant(const LayerQuery& q) {
  return [dtype = scalar_type_of(q.text("dtype"))](const LayerCall& call) {
    std::vector<std::int64_t> sizes = call.parameters[0].sizes().vec();
    sizes.insert(sizes.begin(), call.inputs[0].size(0));
    return as(call.parameters[0], dtype).expand(sizes);
  };
}

LayerForward make_expand(const LayerQuery& q) {
  return [shape = q.list("shape")](const LayerCall& call) {
    const auto axes =
        std::max<std::int64_t>(call.inputs[0].dim(), static_cast<std::int64_t>(shape.size()) + 1);
    const at::Tensor x = aligned(call.inputs[0], axes);
    std::vector<std::int64_t> sizes = x.sizes().vec();
    // An axis of the input that is not 1 stays as it is.
    for (std::size_t i = 1; i <= shape.size(); ++i) {
      std::int64_t& size = sizes[sizes.size() - i];
      if (size == 1) size = shape[shape.size() - i];
    }
    return x.expand(sizes);
  };
}

}  // namespace

LayerKernels element_kernels() {
  using T = at::Tensor;
  return {
      {"compare", make_compare},
      {"where", make_where},
      {"constant", make_constant},
      {"weight", make_weight},
      {"expand", make_expand},
      {"add", combining([](const T& a, const T& b) { return a + b; })},
      {"sub", combining([](const T& a, const T& b) { return a - b; })},
      {"mul", combining([](const T& a, const T& b) { return a * b; })},
      {"div", combining(quotient)},
      {"pow", combining([](const T& a, const T& b) { return at::pow(a, b); })},
      {"max", combining([](const T& a, const T& b) { return at::maximum(a, b); })},
      {"min", combining([](const T& a, const T& b) { return at::minimum(a, b); })},
  };
}

}  // namespace harmonics::inline in_runtime
