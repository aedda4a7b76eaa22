// Operators that are several layers each.
#include <algorithm>

#include "fold.h"
#include "onnx_operators.h"

namespace harmonics::inline in_models {
namespace {

/// Layers of one node, one after another.
struct Steps {
  OnnxImporter& importer;
  const OnnxNode& node;

  /// Of the wider shape; batches are checked.
  [[nodiscard]] Living pair(std::string_view type, const Living& a, const Living& b) const {
    importer.check_batches(node, a, b);
    Living out = importer.add_layer(node, type, {}, {a, b}, broadcast_shape(a.shape, b.shape));
    out.batch_axis = a.shape.size() >= b.shape.size() ? a.batch_axis : b.batch_axis;
    return out;
  }
  [[nodiscard]] Living with(std::string_view type, const Living& x, double number) const {
    const Living out = importer.add_layer(node, type, {{"constant", Shape{}}}, {x}, x.shape);
    importer.set_weight(out, "value", Constant::of_reals({}, {number}));
    return out;
  }
  [[nodiscard]] Living function(const std::string& of, const Living& x) const {
    return importer.add_layer(node, "function", {{"of", of}}, {x}, x.shape);
  }
  [[nodiscard]] Living compared(const std::string& op, const Living& a, const Living& b) const {
    importer.check_batches(node, a, b);
    Living out = importer.add_layer(node, "compare", {{"op", op}}, {a, b},
                                    broadcast_shape(a.shape, b.shape));
    out.batch_axis = a.shape.size() >= b.shape.size() ? a.batch_axis : b.batch_axis;
    out.dtype = DType::kBool;
    return out;
  }
};

// What is below 0 by a slope of its own.
void import_prelu(OnnxImporter& importer, const OnnxNode& node) {
  const Steps steps{importer, node};
  const Living x = importer.living(node, 0);
  const Living slope = importer.living_or_layer(node, 1, x);
  const Living below = steps.pair("mul", steps.with("min", x, 0), slope);
  importer.set_output(node, 0, steps.pair("add", steps.with("max", x, 0), below));
}

void import_log_softmax(OnnxImporter& importer, const OnnxNode& node) {
  const Steps steps{importer, node};
  const Living x = importer.living(node, 0);
  const std::int64_t axis = node.integer("axis", importer.opset() >= 13 ? -1 : 1);
  const std::size_t place = front_axis(axis, x.shape.size());
  if (importer.opset() < 13 && place + 1 != x.shape.size())
    importer.refuse(node, "several axes are normalised together");
  Shape shape = x.shape;
  shape[place] = 1;
  const Living sum = importer.add_layer(node, "reduce",
                                        {{"op", std::string("log_sum_exp")},
                                         {"axes", Shape{importer.sample_axis(node, x, axis)}},
                                         {"keep", std::int64_t{1}}},
                                        {x}, shape);
  importer.set_output(node, 0, steps.pair("sub", x, sum));
}

void import_mean(OnnxImporter& importer, const OnnxNode& node) {
  const Steps steps{importer, node};
  std::optional<Living> like;
  for (std::size_t i = 0; i < node.inputs.size() && !like; ++i)
    if (importer.constant(node, i) == nullptr) like = importer.living(node, i);
  if (!like) importer.refuse(node, "all of its inputs are constants");
  Living sum = importer.living_or_layer(node, 0, *like);
  for (std::size_t i = 1; i < node.inputs.size(); ++i)
    sum = steps.pair("add", sum, importer.living_or_layer(node, i, *like));
  importer.set_output(node, 0, steps.with("div", sum, static_cast<double>(node.inputs.size())));
}

void import_xor(OnnxImporter& importer, const OnnxNode& node) {
  const bool first_known = importer.constant(node, 0) != nullptr;
  const Living like = importer.living(node, first_known ? 1 : 0);
  importer.set_output(
      node, 0,
      Steps{importer, node}.compared("not_equal", importer.living_or_layer(node, 0, like),
                                     importer.living_or_layer(node, 1, like)));
}

void import_is_nan(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  importer.set_output(node, 0, Steps{importer, node}.compared("not_equal", x, x));
}

void import_bent(OnnxImporter& importer, const OnnxNode& node) {
  const Steps steps{importer, node};
  const Living x = importer.living(node, 0);
  if (node.op == "Mish") return importer.set_output(node, 0, steps.function("mish", x));
  if (node.op == "Softsign") {
    const Living size = steps.with("add", steps.function("abs", x), 1);
    return importer.set_output(node, 0, steps.pair("div", x, size));
  }
  // ThresholdedRelu: what is not above alpha is 0.
  const Constant alpha = Constant::of_reals({}, {node.real("alpha", 1)}, x.dtype);
  const Constant zero = Constant::of_reals({}, {0}, x.dtype);
  const Living above = steps.compared("greater", x, importer.constant_layer(node, alpha, x));
  Living out = importer.add_layer(node, "where", {},
                                  {above, x, importer.constant_layer(node, zero, x)}, x.shape);
  out.dtype = x.dtype;
  importer.set_output(node, 0, out);
}

void import_cast_like(OnnxImporter& importer, const OnnxNode& node) {
  const Constant* const like = importer.constant(node, 1);
  const DType dtype = like == nullptr ? importer.living(node, 1).dtype : like->dtype();
  if (const Constant* const known = importer.constant(node, 0)) {
    OnnxNode cast;
    cast.op = "Cast";
    cast.attributes["to"].integer = onnx_data_type(dtype);
    return importer.set_output(node, 0, fold(cast, std::span(&known, 1)).value().at(0));
  }
  importer.set_output(node, 0, importer.cast(node, importer.living(node, 0), dtype));
}

// `x` seen as `apart`, its axes in this order, and seen as `whole`: all as ONNX counts, with an
// axis 0 that stays where it is.
void set_regrouped(OnnxImporter& importer, const OnnxNode& node, const Living& x,
                   const std::vector<Shape>& steps) {
  const Shape &apart = steps[0], &order = steps[1], &whole = steps[2];
  const Living seen = importer.reshaped(node, x, apart, x.batch_axis);
  Shape own, moved;
  for (const std::int64_t axis : order) {
    moved.push_back(apart[static_cast<std::size_t>(axis)]);
    if (x.has_batch() && axis == 0) continue;
    own.push_back(importer.sample_axis(node, seen, axis));
  }
  const Living turned = importer.add_layer(node, "transpose", {{"axes", own}}, {seen}, moved);
  importer.set_output(node, 0, importer.reshaped(node, turned, whole, x.batch_axis));
}

void import_depth(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  if (x.shape.size() != 4 || (x.has_batch() && x.batch_axis != 0))
    importer.refuse(node, "its input is not {batch, channels, height, width}");
  const std::int64_t n = x.shape[0], c = x.shape[1], h = x.shape[2], w = x.shape[3];
  const std::int64_t b = node.integer("blocksize", 0);
  const bool deeper = node.op == "SpaceToDepth";
  if (b < 1 || b > 10'000 || (deeper ? h % b != 0 || w % b != 0 : c % (b * b) != 0))
    importer.refuse(node, format("blocks of {} do not fit {}", b, shape_text(x.shape)));
  if (deeper)
    return set_regrouped(
        importer, node, x,
        {{n, c, h / b, b, w / b, b}, {0, 3, 5, 1, 2, 4}, {n, c * b * b, h / b, w / b}});
  const std::int64_t out = c / (b * b);
  const bool columns_first = node.text("mode", "DCR") == "CRD";
  set_regrouped(importer, node, x,
                {columns_first ? Shape{n, out, b, b, h, w} : Shape{n, b, b, out, h, w},
                 columns_first ? Shape{0, 1, 4, 2, 5, 3} : Shape{0, 3, 4, 1, 5, 2},
                 {n, out, h * b, w * b}});
}

void import_tile(OnnxImporter& importer, const OnnxNode& node) {
  Living x = importer.living(node, 0);
  const std::vector<std::int64_t> repeats = importer.known(node, 1).integers();
  if (repeats.size() != x.shape.size()) importer.refuse(node, "it does not repeat every axis");
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] == 1) continue;
    if (repeats[i] < 1 || repeats[i] > static_cast<std::int64_t>(kMaxLayerInputs))
      importer.refuse(node, format("it repeats an axis {} times", repeats[i]));
    const std::int64_t own = importer.sample_axis(node, x, static_cast<std::int64_t>(i));
    Shape shape = x.shape;
    shape[i] *= repeats[i];
    const std::vector<Living> copies(static_cast<std::size_t>(repeats[i]), x);
    x = importer.add_layer(node, "concat", {{"axis", own}}, copies, shape);
  }
  importer.set_output(node, 0, x);
}

// Before opset 21 a group had one factor and one addend.
void import_group_norm(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  if (x.batch_axis != 0 || x.shape.size() < 3)
    importer.refuse(node, "its input is not {batch, channels, …}");
  const std::int64_t groups = node.integer("num_groups", 1), channels = x.shape[1];
  const Living out = importer.add_layer(
      node, "group_norm", {{"groups", groups}, {"eps", node.real("epsilon", 1e-5)}}, {x}, x.shape);
  const char* const names[] = {"weight", "bias"};
  for (std::size_t i = 0; i < 2; ++i) {
    const Constant& given = importer.known(node, i + 1);
    const std::int64_t each = given.size() > 0 ? channels / given.size() : 0;
    if (each < 1 || each * given.size() != channels)
      importer.refuse(node, "its scale or bias does not fit the channels");
    importer.set_weight(out, names[i],
                        given.reshaped({given.size()}).moved({channels}, [&](std::int64_t at) {
                          return at / each;
                        }));
  }
  importer.set_output(node, 0, out);
}

constexpr OnnxOperator kComposed[] = {
    {"PRelu", import_prelu},
    {"LogSoftmax", import_log_softmax},
    {"Mean", import_mean},
    {"Xor", import_xor},
    {"IsNaN", import_is_nan},
    {"Mish", import_bent},
    {"Softsign", import_bent},
    {"ThresholdedRelu", import_bent},
    {"CastLike", import_cast_like},
    {"DepthToSpace", import_depth},
    {"SpaceToDepth", import_depth},
    {"Tile", import_tile},
    {"GroupNormalization", import_group_norm},
};

}  // namespace

std::span<const OnnxOperator> onnx_composed_operators() { return kComposed; }

}  // namespace harmonics::inline in_models
