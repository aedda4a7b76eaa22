// Products of matrices, reductions, norms over the last axis.
#include <algorithm>

#include "fold.h"
#include "onnx_operators.h"

namespace harmonics::inline in_models {
namespace {

Constant scaled(const Constant& value, double factor) {
  if (factor == 1) return value;
  std::vector<double> numbers = value.reals();
  for (double& number : numbers)
    number = static_cast<double>(static_cast<float>(number) * static_cast<float>(factor));
  return Constant::of_reals(value.shape(), numbers, value.dtype());
}

// A product with a known matrix is a linear layer, whose weight is {out, in}.
Living linear(OnnxImporter& importer, const OnnxNode& node, const Living& x, const Constant& weight,
              const Constant* bias) {
  Shape shape = x.shape;
  shape.back() = weight.shape()[0];
  const Living out = importer.add_layer(
      node, "linear", {{"out", weight.shape()[0]}, {"bias", std::int64_t{bias != nullptr}}}, {x},
      shape);
  importer.set_weight(out, "weight", weight);
  if (bias != nullptr) importer.set_weight(out, "bias", *bias);
  return out;
}

// A row as a matrix {1, n} or {n, 1}, as a product takes it.
Living as_matrix(OnnxImporter& importer, const OnnxNode& node, const Living& x, bool is_left) {
  if (x.shape.size() != 1) return x;
  const Shape shape = is_left ? Shape{1, x.shape[0]} : Shape{x.shape[0], 1};
  return importer.reshaped(node, x, shape, x.batch_axis);
}

// Two tensors: {…, n, k} and {…, k, m}, the batch first of both where there is one.
Living matrix_product(OnnxImporter& importer, const OnnxNode& node, const Living& a,
                      const Living& b) {
  const bool has_batch = a.has_batch();
  if (has_batch && (a.shape.size() < 3 || b.shape.size() < 3 || a.batch_axis != 0 ||
                    b.batch_axis != 0 || a.shape.size() != b.shape.size())) {
    importer.refuse(node, "matrices of one sample each are multiplied, the batch first");
  }
  const Living x = as_matrix(importer, node, a, true), y = as_matrix(importer, node, b, false);
  if (x.shape.size() < 2 || y.shape.size() < 2) importer.refuse(node, "it multiplies one number");
  Shape shape = broadcast_shape(Shape(x.shape.begin(), x.shape.end() - 2),
                                Shape(y.shape.begin(), y.shape.end() - 2));
  shape.push_back(x.shape[x.shape.size() - 2]);
  shape.push_back(y.shape.back());
  Living out = importer.add_layer(node, "matmul", {}, {x, y}, shape);
  if (b.shape.size() == 1) shape.pop_back();
  if (a.shape.size() == 1) shape.erase(shape.end() - (b.shape.size() == 1 ? 1 : 2));
  return importer.reshaped(node, out, shape, out.batch_axis);
}

void import_matmul(OnnxImporter& importer, const OnnxNode& node) {
  const Constant* const left = importer.constant(node, 0);
  const Constant* const right = importer.constant(node, 1);
  if (left != nullptr && right != nullptr)
    importer.refuse(node, "both of its inputs are constants");
  const Living x = left == nullptr ? importer.living(node, 0)
                                   : importer.constant_layer(node, *left, importer.living(node, 1));
  if (right != nullptr && right->shape().size() == 2) {
    if (x.batch_axis + 1 == x.shape.size()) importer.refuse(node, "it works across the batch");
    return importer.set_output(node, 0, linear(importer, node, x, right->transposed(), nullptr));
  }
  importer.set_output(node, 0,
                      matrix_product(importer, node, x, importer.living_or_layer(node, 1, x)));
}

Living turned_matrix(OnnxImporter& importer, const OnnxNode& node, const Living& x) {
  return importer.add_layer(node, "transpose", {{"axes", Shape{1, 0}}}, {x},
                            {x.shape.at(1), x.shape.at(0)});
}

Living times(OnnxImporter& importer, const OnnxNode& node, const Living& x, double factor) {
  if (factor == 1) return x;
  const Living out = importer.add_layer(node, "mul", {{"constant", Shape{}}}, {x}, x.shape);
  importer.set_weight(out, "value", Constant::of_reals({}, {factor}));
  return out;
}

// Where more than the first input is data: a sample is a whole matrix then.
void import_open_gemm(OnnxImporter& importer, const OnnxNode& node, const Living& x) {
  if (x.has_batch()) importer.refuse(node, "its weights or its bias are data");
  Living y = importer.living_or_layer(node, 1, x);
  if (node.integer("transB", 0) != 0) y = turned_matrix(importer, node, y);
  Living out = times(importer, node, matrix_product(importer, node, x, y), node.real("alpha", 1));
  if (importer.has_input(node, 2)) {
    const Living bias =
        times(importer, node, importer.living_or_layer(node, 2, x), node.real("beta", 1));
    out = importer.add_layer(node, "add", {}, {out, bias}, broadcast_shape(out.shape, bias.shape));
  }
  importer.set_output(node, 0, out);
}

void import_gemm(OnnxImporter& importer, const OnnxNode& node) {
  Living x = importer.living(node, 0);
  if (node.integer("transA", 0) != 0) {
    if (x.has_batch()) importer.refuse(node, "its first input is turned");
    x = turned_matrix(importer, node, x);
  }
  const Constant* const matrix = importer.constant(node, 1);
  const bool has_bias = importer.has_input(node, 2);
  if (matrix == nullptr || (has_bias && importer.constant(node, 2) == nullptr))
    return import_open_gemm(importer, node, x);
  if (matrix->shape().size() != 2) importer.refuse(node, "its second input is no matrix");
  Constant weight = node.integer("transB", 0) != 0 ? *matrix : matrix->transposed();
  weight = scaled(weight, node.real("alpha", 1));
  if (!has_bias) return importer.set_output(node, 0, linear(importer, node, x, weight, nullptr));
  const std::int64_t width = weight.shape()[0];
  const Constant& given = importer.known(node, 2);
  const bool one_row = given.size() == 1 || (given.size() == width && !given.shape().empty() &&
                                             given.shape().back() == width);
  if (!one_row && !x.has_batch()) return import_open_gemm(importer, node, x);
  if (!one_row) importer.refuse(node, "its bias has another width");
  const Constant wide =
      given.size() == width
          ? given.reshaped({width})
          : given.reshaped({1}).moved({width}, [](std::int64_t) { return std::int64_t{0}; });
  const Constant bias = scaled(wide, node.real("beta", 1));
  importer.set_output(node, 0, linear(importer, node, x, weight, &bias));
}

// Which axes of `x` go; an empty list means all of them, or none where the node says so.
std::vector<std::int64_t> reduced_axes(OnnxImporter& importer, const OnnxNode& node,
                                       const Living& x) {
  std::vector<std::int64_t> axes = importer.list(node, "axes", 1);
  if (!axes.empty() || node.integer("noop_with_empty_axes", 0) != 0) return axes;
  if (x.has_batch()) importer.refuse(node, "it reduces every axis, the batch too");
  for (std::size_t i = 0; i < x.shape.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  return axes;
}

// `x` without some of its axes, or with 1 there.
Living reduced(OnnxImporter& importer, const OnnxNode& node, const Living& x,
               const std::vector<std::int64_t>& axes, const std::string& op) {
  const bool keep = node.op == "LayerNormalization" || node.integer("keepdims", 1) != 0;
  std::vector<bool> goes(x.shape.size(), false);
  Shape own;
  for (const std::int64_t axis : axes) {
    goes[front_axis(axis, goes.size())] = true;
    own.push_back(importer.sample_axis(node, x, axis));
  }
  std::sort(own.begin(), own.end());
  Shape shape;
  std::size_t batch = x.batch_axis;
  for (std::size_t i = 0; i < goes.size(); ++i) {
    if (i == x.batch_axis) batch = shape.size();
    if (!goes[i] || keep) shape.push_back(goes[i] ? 1 : x.shape[i]);
  }
  Living out = importer.add_layer(
      node, "reduce", {{"op", op}, {"axes", own}, {"keep", std::int64_t{keep}}}, {x}, shape);
  out.batch_axis = batch;
  return out;
}

void import_reduce(OnnxImporter& importer, const OnnxNode& node) {
  static const std::map<std::string_view, const char*> kNames = {{"ReduceMean", "mean"},
                                                                 {"ReduceSum", "sum"},
                                                                 {"ReduceMax", "max"},
                                                                 {"ReduceMin", "min"},
                                                                 {"ReduceProd", "prod"},
                                                                 {"ReduceL2", "l2"},
                                                                 {"ReduceLogSumExp", "log_sum_exp"},
                                                                 {"ReduceL1", "sum"},
                                                                 {"ReduceSumSquare", "sum"},
                                                                 {"ReduceLogSum", "sum"}};
  Living x = importer.living(node, 0);
  const std::vector<std::int64_t> axes = reduced_axes(importer, node, x);
  if (node.op == "ReduceL1")
    x = importer.add_layer(node, "function", {{"of", std::string("abs")}}, {x}, x.shape);
  if (node.op == "ReduceSumSquare") x = importer.add_layer(node, "mul", {}, {x, x}, x.shape);
  Living out = axes.empty() ? x : reduced(importer, node, x, axes, kNames.at(node.op));
  if (node.op == "ReduceLogSum") {
    const std::size_t batch = out.batch_axis;
    out = importer.add_layer(node, "function", {{"of", std::string("log")}}, {out}, out.shape);
    out.batch_axis = batch;
  }
  importer.set_output(node, 0, out);
}

// Mean and 1 / deviation, which a layer_norm keeps to itself.
void set_statistics(OnnxImporter& importer, const OnnxNode& node, const Living& x,
                    std::size_t axis) {
  if (node.outputs.size() < 2) return;
  std::vector<std::int64_t> axes;
  for (std::size_t i = axis; i < x.shape.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  const Living mean = reduced(importer, node, x, axes, "mean");
  importer.set_output(node, 1, mean);
  if (node.outputs.size() < 3) return;
  const Living off = importer.add_layer(node, "sub", {}, {x, mean}, x.shape);
  const Living square = importer.add_layer(node, "mul", {}, {off, off}, x.shape);
  const Living variance = reduced(importer, node, square, axes, "mean");
  const Living widened =
      importer.add_layer(node, "add", {{"constant", Shape{}}}, {variance}, variance.shape);
  importer.set_weight(widened, "value", Constant::of_reals({}, {node.real("epsilon", 1e-5)}));
  const Living deviation = importer.add_layer(node, "function", {{"of", std::string("sqrt")}},
                                              {widened}, variance.shape);
  Living inverse = importer.add_layer(node, "function", {{"of", std::string("reciprocal")}},
                                      {deviation}, variance.shape);
  importer.set_output(node, 2, inverse);
}

// All axes from `axis` on are one to the layer.
void import_layer_norm(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  const std::size_t axis = front_axis(node.integer("axis", -1), x.shape.size());
  if (x.has_batch() && axis <= x.batch_axis)
    importer.refuse(node, "it works across the samples of a batch");
  const auto middle = x.shape.begin() + static_cast<std::ptrdiff_t>(axis);
  const std::int64_t width = element_count(Shape(middle, x.shape.end()));
  Shape flat(x.shape.begin(), middle);
  flat.push_back(width);
  const Living seen = importer.reshaped(node, x, flat, x.batch_axis);
  const Living out = importer.add_layer(node, "layer_norm", {{"eps", node.real("epsilon", 1e-5)}},
                                        {seen}, seen.shape);
  importer.set_weight(out, "weight", importer.known(node, 1).reshaped({width}));
  importer.set_weight(out, "bias",
                      importer.has_input(node, 2)
                          ? importer.known(node, 2).reshaped({width})
                          : Constant::filled({width}, Constant::of_reals({1}, {0})));
  importer.set_output(node, 0, importer.reshaped(node, out, x.shape, x.batch_axis));
  set_statistics(importer, node, x, axis);
}

constexpr OnnxOperator kMatrices[] = {
    {"MatMul", import_matmul},
    {"Gemm", import_gemm},
    {"ReduceMean", import_reduce},
    {"ReduceSum", import_reduce},
    {"ReduceMax", import_reduce},
    {"ReduceMin", import_reduce},
    {"ReduceProd", import_reduce},
    {"ReduceL2", import_reduce},
    {"ReduceLogSumExp", import_reduce},
    {"ReduceL1", import_reduce},
    {"ReduceSumSquare", import_reduce},
    {"ReduceLogSum", import_reduce},
    {"LayerNormalization", import_layer_norm},
};

}  // namespace

std::span<const OnnxOperator> onnx_matrix_operators() { return kMatrices; }

}  // namespace harmonics::inline in_models
