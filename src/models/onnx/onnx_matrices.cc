// Products of matrices, reductions, norms over the last axis.
#include <algorithm>

#include "fold.h"
#include "onnx_operators.h"

namespace harmonics::inline in_models {
namespace {

Constant transposed(const Constant& matrix) {
  const std::int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  return matrix.moved({columns, rows},
                      [&](std::int64_t i) { return i % rows * columns + i / rows; });
}

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

void import_matmul(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  if (const Constant* matrix = importer.constant(node, 1)) {
    if (matrix->shape().size() != 2 || x.batch_axis + 1 == x.shape.size())
      importer.refuse(node, "its constant is no matrix");
    return importer.set_output(node, 0, linear(importer, node, x, transposed(*matrix), nullptr));
  }
  const Living y = importer.living(node, 1);
  if (x.shape.size() < 3 || y.shape.size() < 3 || x.batch_axis != 0 || y.batch_axis != 0)
    importer.refuse(node, "matrices of one sample each are multiplied, the batch first");
  Shape left(x.shape.begin(), x.shape.end() - 2), right(y.shape.begin(), y.shape.end() - 2);
  if (left.size() != right.size()) importer.refuse(node, "the batch is not the same axis of both");
  Shape shape = broadcast_shape(left, right);
  shape.push_back(x.shape[x.shape.size() - 2]);
  shape.push_back(y.shape.back());
  importer.set_output(node, 0, importer.add_layer(node, "matmul", {}, {x, y}, shape));
}

void import_gemm(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  if (node.integer("transA", 0) != 0) importer.refuse(node, "its first input is turned");
  const Constant& matrix = importer.known(node, 1);
  if (matrix.shape().size() != 2) importer.refuse(node, "its second input is no matrix");
  Constant weight = node.integer("transB", 0) != 0 ? matrix : transposed(matrix);
  weight = scaled(weight, node.real("alpha", 1));
  if (!importer.has_input(node, 2))
    return importer.set_output(node, 0, linear(importer, node, x, weight, nullptr));
  const std::int64_t width = weight.shape()[0];
  const Constant& given = importer.known(node, 2);
  if (given.size() != width && given.size() != 1)
    importer.refuse(node, "its bias has another width");
  const Constant wide =
      given.size() == width
          ? given.reshaped({width})
          : given.reshaped({1}).moved({width}, [](std::int64_t) { return std::int64_t{0}; });
  const Constant bias = scaled(wide, node.real("beta", 1));
  importer.set_output(node, 0, linear(importer, node, x, weight, &bias));
}

void import_reduce(OnnxImporter& importer, const OnnxNode& node) {
  static const std::map<std::string_view, const char*> kNames = {
      {"ReduceMean", "mean"}, {"ReduceSum", "sum"},   {"ReduceMax", "max"},
      {"ReduceMin", "min"},   {"ReduceProd", "prod"}, {"ReduceL2", "l2"}};
  const Living x = importer.living(node, 0);
  std::vector<std::int64_t> axes = importer.list(node, "axes", 1);
  const bool keep = node.integer("keepdims", 1) != 0;
  if (axes.empty()) importer.refuse(node, "it reduces every axis, the batch too");
  std::vector<bool> goes(x.shape.size(), false);
  Shape own;
  for (const std::int64_t axis : axes) {
    goes[front_axis(axis, goes.size())] = true;
    own.push_back(importer.sample_axis(node, x, axis));
  }
  std::sort(own.begin(), own.end());
  Shape shape;
  std::size_t batch = 0;
  for (std::size_t i = 0; i < goes.size(); ++i) {
    if (i == x.batch_axis) batch = shape.size();
    if (!goes[i] || keep) shape.push_back(goes[i] ? 1 : x.shape[i]);
  }
  Living out = importer.add_layer(
      node, "reduce",
      {{"op", std::string(kNames.at(node.op))}, {"axes", own}, {"keep", std::int64_t{keep}}}, {x},
      shape);
  out.batch_axis = batch;
  importer.set_output(node, 0, out);
}

void import_layer_norm(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  const std::size_t axis = front_axis(node.integer("axis", -1), x.shape.size());
  if (axis + 1 != x.shape.size()) importer.refuse(node, "only the last axis is normalised");
  const Living out =
      importer.add_layer(node, "layer_norm", {{"eps", node.real("epsilon", 1e-5)}}, {x}, x.shape);
  importer.set_weight(out, "weight", importer.known(node, 1));
  importer.set_weight(out, "bias",
                      importer.has_input(node, 2)
                          ? importer.known(node, 2)
                          : Constant::filled({x.shape.back()}, Constant::of_reals({1}, {0})));
  importer.set_output(node, 0, out);
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
    {"LayerNormalization", import_layer_norm},
};

}  // namespace

std::span<const OnnxOperator> onnx_matrix_operators() { return kMatrices; }

}  // namespace harmonics::inline in_models
