// Operators that move numbers without computing.
#include <algorithm>
#include <optional>

#include "fold.h"
#include "onnx_operators.h"

namespace harmonics::inline in_models {
namespace {

void import_identity(OnnxImporter& importer, const OnnxNode& node) {
  importer.set_output(node, 0, importer.input(node, 0));
}

// Nothing is dropped, so that the mask is all true.
void import_dropout(OnnxImporter& importer, const OnnxNode& node) {
  const bool training = importer.has_input(node, 2) && importer.known(node, 2).integer() != 0;
  const double ratio = importer.has_input(node, 1) ? importer.known(node, 1).real() : 0.5;
  if (training && ratio != 0) importer.refuse(node, "it is in training mode");
  const Living x = importer.living(node, 0);
  importer.set_output(node, 0, x);
  const DType mask = importer.opset() >= 10 ? DType::kBool : x.dtype;
  importer.set_output(node, 1, Constant::filled(x.shape, Constant::of_integers({1}, {1}, mask)));
}

void import_shape(OnnxImporter& importer, const OnnxNode& node) {
  const Shape& shape = importer.living(node, 0).shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const SliceRange range =
      slice_range(node.integer("start", 0), node.integer("end", rank), 1, rank);
  const Shape part(shape.begin() + range.begin, shape.begin() + range.begin + range.count);
  importer.set_output(node, 0, Constant::of_integers({range.count}, part));
}

void import_size(OnnxImporter& importer, const OnnxNode& node) {
  const std::int64_t size = element_count(importer.living(node, 0).shape);
  importer.set_output(node, 0, Constant::of_integers({}, {size}));
}

// Where the batch stands in a shape that a file asks for.
std::size_t batch_place(OnnxImporter& importer, const OnnxNode& node, const Living& x,
                        Shape& target) {
  for (std::size_t i = 0; i < target.size(); ++i)
    if (target[i] == kBatchExtent) return i;
  // A file that was written for one sample says 1 (or -1, or 0) where the batch stands.
  const std::int64_t sample = element_count(x.sample());
  std::int64_t rest = 1;
  for (std::size_t i = 1; i < target.size(); ++i) {
    if (target[i] > kMaxElements || rest > kMaxElements / std::max<std::int64_t>(target[i], 1))
      importer.refuse(node, "it asks for more numbers than a tensor has");
    rest *= std::max<std::int64_t>(target[i], -1);
  }
  if (!target.empty() && (target[0] == 1 || target[0] == -1 || target[0] == 0) &&
      (rest == sample || rest < 0 || std::count(target.begin() + 1, target.end(), 0) > 0)) {
    target[0] = kBatchExtent;
    return 0;
  }
  importer.refuse(node, format("it makes {} of {}: the batch is no axis of its own there",
                               shape_text(target), shape_text(x.shape)));
}

void import_reshape(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  std::vector<std::int64_t> target = importer.list(node, "shape", 1);
  const bool allow_zero = node.integer("allowzero", 0) != 0;
  for (std::size_t i = 0; i < target.size() && !allow_zero; ++i)
    if (target[i] == 0 && i < x.shape.size()) target[i] = x.shape[i];
  const std::size_t place = x.has_batch() ? batch_place(importer, node, x, target) : kNoBatch;
  const Shape shape = reshape_target(x.shape, target, allow_zero);
  importer.set_output(node, 0, importer.reshaped(node, x, shape, place));
}

void import_flatten(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  const auto rank = static_cast<std::int64_t>(x.shape.size());
  const std::int64_t given = node.integer("axis", 1);
  if (given < -rank || given > rank) importer.refuse(node, format("axis {} of {}", given, rank));
  const std::int64_t axis = given < 0 ? given + rank : given;
  if (x.has_batch() && (axis != 1 || x.batch_axis != 0))
    importer.refuse(node, "only the axes behind the batch are made one");
  const auto middle = x.shape.begin() + axis;
  const Shape shape = {element_count(Shape(x.shape.begin(), middle)),
                       element_count(Shape(middle, x.shape.end()))};
  importer.set_output(node, 0, importer.reshaped(node, x, shape, x.batch_axis));
}

void import_unsqueeze(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  const std::vector<std::int64_t> axes = importer.list(node, "axes", 1);
  const std::size_t rank = x.shape.size() + axes.size();
  std::vector<bool> is_new(rank, false);
  for (const std::int64_t axis : axes) is_new[front_axis(axis, rank)] = true;
  Shape shape;
  std::size_t batch = x.batch_axis, next = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    if (!is_new[i] && next == x.batch_axis) batch = i;
    shape.push_back(is_new[i] ? 1 : x.shape.at(next++));
  }
  importer.set_output(node, 0, importer.reshaped(node, x, shape, batch));
}

void import_squeeze(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  const std::vector<std::int64_t> axes = importer.list(node, "axes", 1);
  std::vector<bool> goes(x.shape.size(), false);
  for (const std::int64_t axis : axes) goes[front_axis(axis, goes.size())] = true;
  Shape shape;
  std::size_t batch = x.batch_axis;
  for (std::size_t i = 0; i < goes.size(); ++i) {
    if (axes.empty()) goes[i] = x.shape[i] == 1;
    if (goes[i] && i == x.batch_axis) importer.refuse(node, "it takes the batch's axis away");
    if (i == x.batch_axis) batch = shape.size();
    if (!goes[i]) shape.push_back(x.shape[i]);
  }
  importer.set_output(node, 0, importer.reshaped(node, x, shape, batch));
}

void import_transpose(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  std::vector<std::int64_t> order = node.integers("perm");
  if (order.empty())
    for (std::size_t i = x.shape.size(); i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
  Shape shape, axes;
  std::size_t batch = x.batch_axis;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t from = front_axis(order[i], x.shape.size());
    shape.push_back(x.shape[from]);
    if (from == x.batch_axis) {
      batch = i;
    } else {
      axes.push_back(importer.sample_axis(node, x, order[i]));
    }
  }
  Living out = x;
  if (!std::is_sorted(axes.begin(), axes.end()))
    out = importer.add_layer(node, "transpose", {{"axes", axes}}, {x}, shape);
  out.shape = shape;
  out.batch_axis = batch;
  importer.set_output(node, 0, out);
}

void import_concat(OnnxImporter& importer, const OnnxNode& node) {
  std::optional<Living> first;
  for (std::size_t i = 0; i < node.inputs.size() && !first; ++i)
    if (importer.constant(node, i) == nullptr) first = importer.living(node, i);
  const std::int64_t axis = node.integer("axis", 0);
  if (!first) importer.refuse(node, "all of its inputs are constants");
  const std::int64_t own = importer.sample_axis(node, *first, axis);
  const std::size_t place = front_axis(axis, first->shape.size());
  std::vector<Living> inputs;
  Shape shape = first->shape;
  shape[place] = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Living one = importer.living_or_layer(node, i, *first);
    if (one.batch_axis != first->batch_axis || one.shape.size() != shape.size())
      importer.refuse(node, "the batch is not the same axis of all inputs");
    shape[place] += one.shape[place];
    inputs.push_back(one);
  }
  if (inputs.size() == 1) return importer.set_output(node, 0, inputs[0]);
  importer.set_output(node, 0, importer.add_layer(node, "concat", {{"axis", own}}, inputs, shape));
}

Living sliced(OnnxImporter& importer, const OnnxNode& node, const Living& x, std::int64_t axis,
              const SliceRange& range) {
  const std::size_t place = front_axis(axis, x.shape.size());
  if (range.begin == 0 && range.step == 1 && range.count == x.shape[place]) return x;
  const std::int64_t own = importer.sample_axis(node, x, axis);
  Shape shape = x.shape;
  shape[place] = range.count;
  return importer.add_layer(
      node, "slice",
      {{"axis", own}, {"begin", range.begin}, {"count", range.count}, {"step", range.step}}, {x},
      shape);
}

void import_slice(OnnxImporter& importer, const OnnxNode& node) {
  Living x = importer.living(node, 0);
  const std::vector<std::int64_t> starts = importer.list(node, "starts", 1);
  const std::vector<std::int64_t> ends = importer.list(node, "ends", 2);
  const std::vector<std::int64_t> axes = importer.list(node, "axes", 3);
  const std::vector<std::int64_t> steps = importer.list(node, "steps", 4);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t axis = i < axes.size() ? axes[i] : static_cast<std::int64_t>(i);
    const std::int64_t extent = x.shape[front_axis(axis, x.shape.size())];
    x = sliced(importer, node, x, axis,
               slice_range(starts[i], ends.at(i), i < steps.size() ? steps[i] : 1, extent));
  }
  importer.set_output(node, 0, x);
}

void import_split(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  const std::int64_t axis = node.integer("axis", 0);
  const std::int64_t extent = x.shape[front_axis(axis, x.shape.size())];
  std::vector<std::int64_t> sizes = importer.list(node, "split", 1);
  const auto count = static_cast<std::int64_t>(node.outputs.size());
  const std::int64_t even = (extent + count - 1) / std::max<std::int64_t>(count, 1);
  for (std::int64_t left = extent; static_cast<std::int64_t>(sizes.size()) < count;
       left -= sizes.back())
    sizes.push_back(std::min(even, left));
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    importer.set_output(node, i, sliced(importer, node, x, axis, {begin, sizes.at(i), 1}));
    begin += sizes[i];
  }
}

// Rows of a table by ids that are data: what models keep words in.
Living looked_up(OnnxImporter& importer, const OnnxNode& node, const Constant& table,
                 const Living& ids) {
  Shape shape = ids.shape;
  shape.push_back(table.shape()[1]);
  Living out = importer.add_layer(
      node, "embedding", {{"rows", table.shape()[0]}, {"width", table.shape()[1]}}, {ids}, shape);
  out.dtype = DType::kFloat32;
  importer.set_weight(out, "weight", table);
  return out;
}

// The shape of `x` with the axis at `place` replaced by those of the indices.
Shape gathered_shape(const Shape& x, std::size_t place, const Shape& indices) {
  Shape shape = x;
  const auto at = shape.begin() + static_cast<std::ptrdiff_t>(place);
  shape.insert(shape.erase(at), indices.begin(), indices.end());
  return shape;
}

Living gathered_known(OnnxImporter& importer, const OnnxNode& node, const Living& x,
                      const Constant& indices) {
  const std::int64_t axis = node.integer("axis", 0);
  const std::size_t place = front_axis(axis, x.shape.size());
  const std::int64_t own = importer.sample_axis(node, x, axis);
  Shape list = indices.integers(), shape = x.shape;
  for (std::int64_t& index : list) index += index < 0 ? x.shape[place] : 0;
  shape[place] = static_cast<std::int64_t>(list.size());
  const Living out =
      importer.add_layer(node, "gather", {{"axis", own}, {"indices", list}}, {x}, shape);
  const bool moves = x.has_batch() && x.batch_axis > place;
  const std::size_t batch = moves ? x.batch_axis + indices.shape().size() - 1 : x.batch_axis;
  return importer.reshaped(node, out, gathered_shape(x.shape, place, indices.shape()), batch);
}

void import_gather(OnnxImporter& importer, const OnnxNode& node) {
  const std::int64_t axis = node.integer("axis", 0);
  const Constant* const table = importer.constant(node, 0);
  const Constant* const known = importer.constant(node, 1);
  if (known != nullptr)
    return importer.set_output(node, 0,
                               gathered_known(importer, node, importer.living(node, 0), *known));
  const Living ids = importer.living(node, 1);
  const bool is_table = table != nullptr && axis == 0 && table->shape().size() == 2 &&
                        table->dtype() == DType::kFloat32;
  if (is_table) return importer.set_output(node, 0, looked_up(importer, node, *table, ids));
  if (!importer.is_whole())
    importer.refuse(
        node, table == nullptr ? "its indices are data" : "only the rows of a table are looked up");
  const Living x = importer.living_or_layer(node, 0, ids);
  const Shape shape = gathered_shape(x.shape, front_axis(axis, x.shape.size()), ids.shape);
  importer.set_output(
      node, 0,
      importer.add_layer(node, "gather", {{"axis", importer.sample_axis(node, x, axis)}}, {x, ids},
                         shape));
}

void import_expand(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  Shape target = importer.known(node, 1).integers();
  const Shape shape = broadcast_shape(x.shape, target);
  if (shape == x.shape) return importer.set_output(node, 0, x);
  if (x.has_batch() && shape.size() != x.shape.size()) importer.refuse(node, "it adds axes");
  Living out = x;
  out.shape = shape;
  const Shape sample = out.sample();
  importer.set_output(node, 0, importer.add_layer(node, "expand", {{"shape", sample}}, {x}, shape));
}

constexpr OnnxOperator kShapes[] = {
    {"Identity", import_identity},   {"Dropout", import_dropout}, {"Shape", import_shape},
    {"Size", import_size},           {"Reshape", import_reshape}, {"Flatten", import_flatten},
    {"Unsqueeze", import_unsqueeze}, {"Squeeze", import_squeeze}, {"Transpose", import_transpose},
    {"Concat", import_concat},       {"Slice", import_slice},     {"Split", import_split},
    {"Gather", import_gather},       {"Expand", import_expand},
};

}  // namespace

std::span<const OnnxOperator> onnx_shape_operators() { return kShapes; }

}  // namespace harmonics::inline in_models
