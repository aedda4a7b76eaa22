#include "fold.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <harmonics/base/error.h>

namespace harmonics::inline in_models {
namespace {

using Inputs = std::span<const Constant* const>;
using Outputs = std::vector<Constant>;

struct Call {
  const OnnxNode& node;
  Inputs inputs;

  [[nodiscard]] bool has(std::size_t index) const {
    return index < inputs.size() && inputs[index] != nullptr;
  }
  [[nodiscard]] const Constant& input(std::size_t index) const {
    if (!has(index))
      fail(ErrorCode::kInvalidArgument, "{} lacks its input {}", node.title(), index + 1);
    return *inputs[index];
  }
  /// Numbers that newer opsets take as an input and older ones as an attribute.
  [[nodiscard]] std::vector<std::int64_t> list(std::string_view attribute,
                                               std::size_t index) const {
    return has(index) ? input(index).integers() : node.integers(attribute);
  }
};

// Beyond the largest tensor it stays there: an axis of 0 may stand beside any others.
std::int64_t product(std::span<const std::int64_t> extents) {
  std::int64_t all = 1;
  for (const std::int64_t extent : extents)
    all = extent > 0 && all > kMaxElements / extent ? kMaxElements : all * extent;
  return all;
}

std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = product({&shape[i], shape.size() - i});
  return strides;
}

// The place in `from` (broadcast to `to`) of place `index` of `to`.
std::int64_t broadcast_place(std::int64_t index, const Shape& to, const Shape& from) {
  std::int64_t place = 0, stride = 1;
  for (std::size_t back = 0; back < to.size(); ++back) {
    const std::int64_t extent = to[to.size() - 1 - back];
    const std::int64_t at = index % extent;
    index /= extent;
    if (back >= from.size()) continue;
    const std::int64_t own = from[from.size() - 1 - back];
    place += (own == 1 ? 0 : at) * stride;
    stride *= own;
  }
  return place;
}

Constant expanded(const Constant& value, const Shape& shape) {
  const Shape whole = broadcast_shape(value.shape(), shape);
  return value.moved(whole,
                     [&](std::int64_t i) { return broadcast_place(i, whole, value.shape()); });
}

template <typename Number, typename Operation>
std::vector<Number> combined(const std::vector<Number>& left, const std::vector<Number>& right,
                             Operation&& operation) {
  std::vector<Number> out(left.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = operation(left[i], right[i]);
  return out;
}

// The sign of the rest: fmod's is the dividend's, the other one's the divisor's.
std::int64_t rest_of(std::int64_t a, std::int64_t b, bool fmod) {
  const std::int64_t rest = a % b;
  return !fmod && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::int64_t integer_result(const std::string& op, std::int64_t a, std::int64_t b) {
  const auto left = static_cast<std::uint64_t>(a), right = static_cast<std::uint64_t>(b);
  if (op == "Add") return static_cast<std::int64_t>(left + right);
  if (op == "Sub") return static_cast<std::int64_t>(left - right);
  if (op == "Mul") return static_cast<std::int64_t>(left * right);
  if (op == "Div" || op == "Mod" || op == "fmod") {
    if (b == 0 || (b == -1 && a == INT64_MIN))
      fail(ErrorCode::kInvalidArgument, "{} divides {} by {}", op, a, b);
    return op == "Div" ? a / b : rest_of(a, b, op == "fmod");
  }
  if (op == "Max") return std::max(a, b);
  if (op == "Min") return std::min(a, b);
  return static_cast<std::int64_t>(std::pow(static_cast<double>(a), static_cast<double>(b)));
}

// Computed in single precision where the constants are.
template <typename Real>
Real real_result(const std::string& op, Real a, Real b) {
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Div") return a / b;
  if (op == "Mod" || op == "fmod") return std::fmod(a, b);
  if (op == "Max") return std::max(a, b);
  if (op == "Min") return std::min(a, b);
  return std::pow(a, b);
}

Constant arithmetic(const Call& call, const Constant& a, const Constant& b) {
  const Shape shape = broadcast_shape(a.shape(), b.shape());
  const Constant left = expanded(a, shape), right = expanded(b, shape);
  const bool fmod = call.node.op == "Mod" && call.node.integer("fmod", 0) != 0;
  const std::string op = fmod ? "fmod" : call.node.op;
  if (!is_floating(a.dtype())) {
    return Constant::of_integers(
        shape,
        combined(left.integers(), right.integers(),
                 [&](std::int64_t x, std::int64_t y) { return integer_result(op, x, y); }),
        a.dtype());
  }
  const bool is_double = a.dtype() == DType::kFloat64;
  return Constant::of_reals(shape,
                            combined(left.reals(), right.reals(),
                                     [&](double x, double y) {
                                       return is_double ? real_result(op, x, y)
                                                        : real_result(op, static_cast<float>(x),
                                                                      static_cast<float>(y));
                                     }),
                            a.dtype());
}

Outputs fold_arithmetic(const Call& call) {
  Constant result = call.input(0);
  for (std::size_t i = 1; i < call.inputs.size(); ++i)
    result = arithmetic(call, result, call.input(i));
  return {result};
}

Outputs fold_comparison(const Call& call) {
  const Shape shape = broadcast_shape(call.input(0).shape(), call.input(1).shape());
  const std::vector<double> left = expanded(call.input(0), shape).reals();
  const std::vector<double> right = expanded(call.input(1), shape).reals();
  const std::string& op = call.node.op;
  std::vector<std::int64_t> out(left.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double a = left[i], b = right[i];
    out[i] = op == "Equal"            ? a == b
             : op == "Less"           ? a < b
             : op == "LessOrEqual"    ? a <= b
             : op == "Greater"        ? a > b
             : op == "GreaterOrEqual" ? a >= b
             : op == "And"            ? (a != 0 && b != 0)
                                      : (a != 0 || b != 0);
  }
  return {Constant::of_integers(shape, out, DType::kBool)};
}

Outputs fold_single(const Call& call) {
  static const std::map<std::string, double (*)(double), std::less<>> kFunctions = {
      {"Neg", [](double x) { return -x; }},
      {"Abs", [](double x) { return std::abs(x); }},
      {"Sqrt", [](double x) { return std::sqrt(x); }},
      {"Exp", [](double x) { return std::exp(x); }},
      {"Log", [](double x) { return std::log(x); }},
      {"Floor", [](double x) { return std::floor(x); }},
      {"Ceil", [](double x) { return std::ceil(x); }},
      {"Reciprocal", [](double x) { return 1 / x; }},
      {"Not", [](double x) { return x == 0 ? 1.0 : 0.0; }},
  };
  const Constant& in = call.input(0);
  std::vector<double> values = in.reals();
  for (double& value : values) value = kFunctions.at(call.node.op)(value);
  return {Constant::of_reals(in.shape(), values, in.dtype())};
}

Outputs fold_cast(const Call& call) {
  const std::optional<DType> type = onnx_dtype(call.node.integer("to", 0));
  const Constant& in = call.input(0);
  if (!type) {
    fail(ErrorCode::kUnimplemented, "a cast to ONNX data type {} is not computed",
         call.node.integer("to", 0));
  }
  if (*type == in.dtype()) return {in};
  if (is_floating(*type)) return {Constant::of_reals(in.shape(), in.reals(), *type)};
  if (*type != DType::kBool) return {Constant::of_integers(in.shape(), in.integers(), *type)};
  std::vector<std::int64_t> bits;
  for (const double value : in.reals()) bits.push_back(value != 0);
  return {Constant::of_integers(in.shape(), bits, DType::kBool)};
}

Outputs fold_constant(const Call& call) {
  if (const OnnxAttribute* value = call.node.find("value"); value != nullptr && value->tensor) {
    const OnnxTensor& tensor = *value->tensor;
    if (!tensor.location.empty())
      fail(ErrorCode::kUnimplemented, "{}: a Constant in another file is not read",
           call.node.title());
    return {tensor.integers.empty()
                ? Constant(tensor.spec, tensor.raw)
                : Constant::of_integers(tensor.spec.shape, tensor.integers, tensor.spec.dtype)};
  }
  const auto count = [](const auto& list) { return Shape{static_cast<std::int64_t>(list.size())}; };
  if (const OnnxAttribute* one = call.node.find("value_int"))
    return {Constant::of_integers({}, {one->integer})};
  if (const OnnxAttribute* one = call.node.find("value_float"))
    return {Constant::of_reals({}, {one->real})};
  if (const OnnxAttribute* many = call.node.find("value_ints"))
    return {Constant::of_integers(count(many->integers), many->integers)};
  if (const OnnxAttribute* many = call.node.find("value_floats"))
    return {Constant::of_reals(count(many->reals), many->reals)};
  fail(ErrorCode::kUnimplemented, "{} holds text or a sparse tensor, which is not read",
       call.node.title());
}

Outputs fold_constant_of_shape(const Call& call) {
  const OnnxAttribute* value = call.node.find("value");
  const Constant one =
      value != nullptr && value->tensor
          ? (value->tensor->integers.empty()
                 ? Constant(value->tensor->spec, value->tensor->raw)
                 : Constant::of_integers({1}, value->tensor->integers, value->tensor->spec.dtype))
          : Constant::of_reals({1}, {0});
  return {Constant::filled(call.input(0).integers(), one)};
}

Outputs fold_shape(const Call& call) {
  const Shape& shape = call.input(0).shape();
  return {Constant::of_integers({static_cast<std::int64_t>(shape.size())}, shape)};
}

Outputs fold_size(const Call& call) { return {Constant::of_integers({}, {call.input(0).size()})}; }

Outputs fold_identity(const Call& call) { return {call.input(0)}; }

Outputs fold_reshape(const Call& call) {
  const Constant& in = call.input(0);
  return {in.reshaped(
      reshape_target(in.shape(), call.list("shape", 1), call.node.integer("allowzero", 0) != 0))};
}

Outputs fold_unsqueeze(const Call& call) {
  const Constant& in = call.input(0);
  const std::vector<std::int64_t> axes = call.list("axes", 1);
  const std::size_t rank = in.shape().size() + axes.size();
  std::vector<bool> is_new(rank, false);
  for (const std::int64_t axis : axes) is_new[front_axis(axis, rank)] = true;
  Shape out;
  auto next = in.shape().begin();
  for (std::size_t i = 0; i < rank; ++i) out.push_back(is_new[i] ? 1 : *next++);
  return {in.reshaped(out)};
}

Outputs fold_squeeze(const Call& call) {
  const Constant& in = call.input(0);
  const std::vector<std::int64_t> axes = call.list("axes", 1);
  std::vector<bool> goes(in.shape().size(), axes.empty());
  for (const std::int64_t axis : axes) goes[front_axis(axis, goes.size())] = true;
  Shape out;
  for (std::size_t i = 0; i < goes.size(); ++i)
    if (!goes[i] || in.shape()[i] != 1) out.push_back(in.shape()[i]);
  return {in.reshaped(out)};
}

Outputs fold_transpose(const Call& call) {
  const Constant& in = call.input(0);
  std::vector<std::int64_t> order = call.node.integers("perm");
  const std::size_t rank = in.shape().size();
  if (order.empty())
    for (std::size_t i = rank; i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
  if (order.size() != rank)
    fail(ErrorCode::kInvalidArgument, "{} orders {} axes of {}", call.node.title(), order.size(),
         rank);
  if (rank == 2 && front_axis(order[0], rank) == 1 && front_axis(order[1], rank) == 0)
    return {in.transposed()};
  const std::vector<std::int64_t> from = strides_of(in.shape());
  Shape out;
  std::vector<std::int64_t> strides;
  for (const std::int64_t axis : order) {
    out.push_back(in.shape()[front_axis(axis, rank)]);
    strides.push_back(from[front_axis(axis, rank)]);
  }
  return {in.moved(out, [&](std::int64_t index) {
    std::int64_t place = 0;
    for (std::size_t i = out.size(); i-- > 0; index /= out[i]) place += index % out[i] * strides[i];
    return place;
  })};
}

Outputs fold_concat(const Call& call) {
  const Shape& first = call.input(0).shape();
  const std::size_t axis = front_axis(call.node.integer("axis", 0), first.size());
  Shape out = first;
  out[axis] = 0;
  bool floating = is_floating(call.input(0).dtype());
  for (std::size_t i = 0; i < call.inputs.size(); ++i) out[axis] += call.input(i).shape().at(axis);
  const std::int64_t outer = product({out.data(), axis});
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  for (std::int64_t row = 0; row < outer; ++row) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const std::int64_t width = call.input(i).size() / std::max<std::int64_t>(outer, 1);
      const auto add = [&](auto& to, const auto& all) {
        to.insert(to.end(), all.begin() + row * width, all.begin() + (row + 1) * width);
      };
      floating ? add(reals, call.input(i).reals()) : add(integers, call.input(i).integers());
    }
  }
  const DType dtype = call.input(0).dtype();
  return {floating ? Constant::of_reals(out, reals, dtype)
                   : Constant::of_integers(out, integers, dtype)};
}

// Places [begin, begin + step, …] along one axis.
Constant sliced(const Constant& in, std::size_t axis, const SliceRange& range) {
  Shape out = in.shape();
  out[axis] = range.count;
  const std::vector<std::int64_t> strides = strides_of(in.shape());
  return in.moved(out, [&](std::int64_t index) {
    std::int64_t place = 0;
    for (std::size_t i = out.size(); i-- > 0; index /= std::max<std::int64_t>(out[i], 1)) {
      const std::int64_t at = index % std::max<std::int64_t>(out[i], 1);
      place += (i == axis ? range.begin + at * range.step : at) * strides[i];
    }
    return place;
  });
}

Outputs fold_slice(const Call& call) {
  Constant out = call.input(0);
  const std::vector<std::int64_t> starts = call.list("starts", 1), ends = call.list("ends", 2);
  const std::vector<std::int64_t> axes = call.list("axes", 3);
  const std::vector<std::int64_t> steps =
      call.has(4) ? call.input(4).integers() : std::vector<std::int64_t>(starts.size(), 1);
  if (ends.size() != starts.size() || steps.size() != starts.size())
    fail(ErrorCode::kInvalidArgument, "{} has unequal lists", call.node.title());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t axis =
        front_axis(i < axes.size() ? axes[i] : static_cast<std::int64_t>(i), out.shape().size());
    out = sliced(out, axis, slice_range(starts[i], ends[i], steps[i], out.shape()[axis]));
  }
  return {out};
}

Outputs fold_gather(const Call& call) {
  const Constant& in = call.input(0);
  const std::size_t axis = front_axis(call.node.integer("axis", 0), in.shape().size());
  const std::vector<std::int64_t> indices = call.input(1).integers();
  Shape out(in.shape().begin(), in.shape().begin() + static_cast<std::ptrdiff_t>(axis));
  out.insert(out.end(), call.input(1).shape().begin(), call.input(1).shape().end());
  out.insert(out.end(), in.shape().begin() + static_cast<std::ptrdiff_t>(axis) + 1,
             in.shape().end());
  const std::int64_t inner = strides_of(in.shape())[axis];
  const std::int64_t extent = in.shape()[axis];
  const auto count = static_cast<std::int64_t>(indices.size());
  for (const std::int64_t index : indices) {
    if (index < -extent || index >= extent)
      fail(ErrorCode::kInvalidArgument, "{} takes element {} of {}", call.node.title(), index,
           extent);
  }
  return {in.moved(out, [&](std::int64_t place) {
    const std::int64_t within = place % inner;
    const std::int64_t index = indices[static_cast<std::size_t>(place / inner % count)];
    const std::int64_t before = place / inner / count;
    return (before * extent + (index < 0 ? index + extent : index)) * inner + within;
  })};
}

Outputs fold_range(const Call& call) {
  const double start = call.input(0).real(), limit = call.input(1).real();
  const double step = call.input(2).real();
  if (step == 0) fail(ErrorCode::kInvalidArgument, "{} has a step of 0", call.node.title());
  const double count = std::max(0.0, std::ceil((limit - start) / step));
  if (count > static_cast<double>(kMaxFoldedElements))
    fail(ErrorCode::kResourceExhausted, "{} has {} numbers", call.node.title(), count);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<double>(i) * step;
  return {Constant::of_reals({static_cast<std::int64_t>(values.size())}, values,
                             call.input(0).dtype())};
}

// What is the same for every sample of a batch stays one row: it broadcasts where it is read.
Outputs fold_expand(const Call& call) {
  Shape shape = call.input(1).integers();
  std::replace(shape.begin(), shape.end(), kBatchExtent, std::int64_t{1});
  return {expanded(call.input(0), shape)};
}

Outputs fold_where(const Call& call) {
  const Shape shape = broadcast_shape(broadcast_shape(call.input(0).shape(), call.input(1).shape()),
                                      call.input(2).shape());
  const std::vector<std::int64_t> chosen = expanded(call.input(0), shape).integers();
  std::vector<double> yes = expanded(call.input(1), shape).reals();
  const std::vector<double> no = expanded(call.input(2), shape).reals();
  for (std::size_t i = 0; i < yes.size(); ++i)
    if (chosen[i] == 0) yes[i] = no[i];
  return {Constant::of_reals(shape, yes, call.input(1).dtype())};
}

using Folder = Outputs (*)(const Call&);

const std::map<std::string, Folder, std::less<>>& folders() {
  static const std::map<std::string, Folder, std::less<>> kFolders = {
      {"Add", fold_arithmetic},
      {"Sub", fold_arithmetic},
      {"Mul", fold_arithmetic},
      {"Div", fold_arithmetic},
      {"Mod", fold_arithmetic},
      {"Pow", fold_arithmetic},
      {"Max", fold_arithmetic},
      {"Min", fold_arithmetic},
      {"Equal", fold_comparison},
      {"Less", fold_comparison},
      {"LessOrEqual", fold_comparison},
      {"Greater", fold_comparison},
      {"GreaterOrEqual", fold_comparison},
      {"And", fold_comparison},
      {"Or", fold_comparison},
      {"Neg", fold_single},
      {"Abs", fold_single},
      {"Sqrt", fold_single},
      {"Exp", fold_single},
      {"Log", fold_single},
      {"Floor", fold_single},
      {"Ceil", fold_single},
      {"Reciprocal", fold_single},
      {"Not", fold_single},
      {"Cast", fold_cast},
      {"Constant", fold_constant},
      {"ConstantOfShape", fold_constant_of_shape},
      {"Shape", fold_shape},
      {"Size", fold_size},
      {"Identity", fold_identity},
      {"Reshape", fold_reshape},
      {"Unsqueeze", fold_unsqueeze},
      {"Squeeze", fold_squeeze},
      {"Transpose", fold_transpose},
      {"Concat", fold_concat},
      {"Slice", fold_slice},
      {"Gather", fold_gather},
      {"Range", fold_range},
      {"Expand", fold_expand},
      {"Where", fold_where},
  };
  return kFolders;
}

}  // namespace

Shape broadcast_shape(const Shape& left, const Shape& right) {
  Shape out(std::max(left.size(), right.size()), 1);
  for (std::size_t back = 1; back <= out.size(); ++back) {
    const std::int64_t a = back <= left.size() ? left[left.size() - back] : 1;
    const std::int64_t b = back <= right.size() ? right[right.size() - back] : 1;
    if (a != b && a != 1 && b != 1) {
      fail(ErrorCode::kInvalidArgument, "shapes {} and {} do not fit together", shape_text(left),
           shape_text(right));
    }
    out[out.size() - back] = a == 1 ? b : a;
  }
  return out;
}

SliceRange slice_range(std::int64_t begin, std::int64_t end, std::int64_t step,
                       std::int64_t extent) {
  if (step == 0) fail(ErrorCode::kInvalidArgument, "a slice has a step of 0");
  if (step > extent + 1) step = extent + 1;
  if (step < -extent - 1) step = -extent - 1;
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? extent : extent - 1;
  const auto within = [&](std::int64_t place) {
    if (place < 0) place = place < -extent ? -1 - extent : place;
    return std::clamp(place < 0 ? place + extent : place, low, high);
  };
  SliceRange range{within(begin), 0, step};
  // An end before the front of the axis means "to the front" when a slice goes backwards.
  const std::int64_t last = step < 0 && end < -extent ? -1 : within(end);
  const std::int64_t span = step > 0 ? last - range.begin : range.begin - last;
  const std::int64_t stride = step > 0 ? step : -step;
  range.count = span > 0 ? (span + stride - 1) / stride : 0;
  return range;
}

std::size_t front_axis(std::int64_t axis, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  if (axis < -count || axis >= count)
    fail(ErrorCode::kInvalidArgument, "axis {} of {} axes", axis, rank);
  return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
}

Shape reshape_target(const Shape& from, std::vector<std::int64_t> target, bool allow_zero) {
  const std::int64_t size = element_count(from);
  std::int64_t known = 1;
  std::ptrdiff_t open = -1;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] == 0 && !allow_zero && i < from.size()) target[i] = from[i];
    if (target[i] == -1) {
      if (open >= 0) fail(ErrorCode::kInvalidArgument, "a shape with two open axes");
      open = static_cast<std::ptrdiff_t>(i);
    } else if (target[i] < 0 || (target[i] > 0 && known > kMaxElements / target[i])) {
      fail(ErrorCode::kInvalidArgument, "{} is no shape", shape_text(target));
    } else {
      known *= target[i];
    }
  }
  if (open >= 0) target[static_cast<std::size_t>(open)] = known == 0 ? 0 : size / known;
  if (element_count(target) != size) {
    fail(ErrorCode::kInvalidArgument, "{} cannot be seen as {}", shape_text(from),
         shape_text(target));
  }
  return target;
}

bool is_folded(std::string_view op) { return folders().contains(op); }

std::optional<Outputs> fold(const OnnxNode& node, Inputs inputs) {
  const auto found = folders().find(node.op);
  if (found == folders().end()) return std::nullopt;
  try {
    return found->second(Call{node, inputs});
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", node.title(), error.what());
  } catch (const std::out_of_range&) {
    fail(ErrorCode::kInvalidArgument, "{}: the shapes of its inputs do not fit", node.title());
  }
}

}  // namespace harmonics::inline in_models
