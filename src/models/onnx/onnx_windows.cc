// Operators that slide a window, and norms over channels.
#include <algorithm>
#include <cmath>

#include "fold.h"
#include "onnx_operators.h"

namespace harmonics::inline in_models {
namespace {

// What a sliding window does, one entry per spatial axis.
struct Window {
  Shape kernel, stride, dilation, before, after;
};

std::vector<std::int64_t> or_ones(std::vector<std::int64_t> values, std::size_t count) {
  if (values.empty()) values.assign(count, 1);
  return values;
}

// auto_pad: as much as keeps ceil(extent / stride) places, the odd one before or after.
void pad_to_same(const Shape& extents, bool upper, Window& window) {
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const std::int64_t places = (extents[i] + window.stride[i] - 1) / window.stride[i];
    const std::int64_t reach = (window.kernel[i] - 1) * window.dilation[i] + 1;
    const std::int64_t all =
        std::max<std::int64_t>(0, (places - 1) * window.stride[i] + reach - extents[i]);
    window.before[i] = upper ? all / 2 : all - all / 2;
    window.after[i] = all - window.before[i];
  }
}

// The kernel of weights {channels, channels, kernel…}.
Shape kernel_of(OnnxImporter& importer, const OnnxNode& node, const Constant& weight,
                const Shape& extents) {
  if (weight.shape().size() != extents.size() + 2)
    importer.refuse(node, "its weights do not have as many axes as its input");
  return Shape(weight.shape().begin() + 2, weight.shape().end());
}

Window window_of(OnnxImporter& importer, const OnnxNode& node, const Shape& extents, Shape kernel) {
  const std::size_t axes = extents.size();
  Window window{std::move(kernel), or_ones(node.integers("strides"), axes),
                or_ones(node.integers("dilations"), axes), Shape(axes, 0), Shape(axes, 0)};
  const std::vector<std::int64_t> pads = node.integers("pads");
  if (window.kernel.size() != axes || window.stride.size() != axes ||
      window.dilation.size() != axes || (!pads.empty() && pads.size() != 2 * axes)) {
    importer.refuse(node, "its window does not have as many axes as its input");
  }
  constexpr std::int64_t kLargest = 1'000'000;
  const auto outside = [&](const std::vector<std::int64_t>& values, std::int64_t least) {
    return std::any_of(values.begin(), values.end(),
                       [&](std::int64_t value) { return value < least || value > kLargest; });
  };
  if (outside(window.kernel, 1) || outside(window.stride, 1) || outside(window.dilation, 1) ||
      outside(pads, 0)) {
    importer.refuse(node, "its window, stride, dilation or padding is no sensible number");
  }
  for (std::size_t i = 0; i < axes && !pads.empty(); ++i) {
    window.before[i] = pads[i];
    window.after[i] = pads[axes + i];
  }
  const std::string automatic = node.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER")
    pad_to_same(extents, automatic == "SAME_UPPER", window);
  return window;
}

Shape spatial(OnnxImporter& importer, const OnnxNode& node, const Living& x) {
  if (x.batch_axis != 0 || x.shape.size() < 3 || x.shape.size() > 4)
    importer.refuse(node, format("its input is {}; {{batch, channels, length}} and {{batch, "
                                 "channels, height, width}} are covered{}",
                                 shape_text(x.shape), x.has_batch() ? "" : ": say --batch 0"));
  return Shape(x.shape.begin() + 2, x.shape.end());
}

bool is_symmetric(const Window& window) { return window.before == window.after; }

// One number per axis, or two where the sides differ: {before…, after…}.
Shape padding_of(const Window& window) {
  Shape padding = window.before;
  if (!is_symmetric(window))
    padding.insert(padding.end(), window.after.begin(), window.after.end());
  return padding;
}

Shape output_of(const Living& x, std::int64_t channels, const Window& window, bool round_up) {
  Shape out = {x.shape[0], channels};
  for (std::size_t i = 0; i < window.kernel.size(); ++i) {
    const std::int64_t reach = (window.kernel[i] - 1) * window.dilation[i] + 1;
    const std::int64_t room = x.shape[i + 2] + window.before[i] + window.after[i] - reach;
    std::int64_t places = (room + (round_up ? window.stride[i] - 1 : 0)) / window.stride[i] + 1;
    // A window that would begin in the padding behind the end does not count.
    if (round_up && (places - 1) * window.stride[i] >= x.shape[i + 2] + window.before[i]) --places;
    out.push_back(places);
  }
  return out;
}

// Several sequences {count, channels, length} of one sample are the rows of an image {channels,
// count, length}, over which the window slides row by row.
void import_conv_of_rows(OnnxImporter& importer, const OnnxNode& node, const Living& x) {
  const Constant& weight = importer.known(node, 1);
  const Shape extents = {x.shape[2]};
  Window window = window_of(importer, node, extents, kernel_of(importer, node, weight, extents));
  const auto with_row = [](std::int64_t row, const Shape& own) { return Shape{row, own[0]}; };
  const Shape padding = {0, window.before[0], 0, window.after[0]};
  const auto turned = [&](const Living& from, Shape shape) {
    return importer.add_layer(node, "transpose", {{"axes", Shape{1, 0, 2}}}, {from}, shape);
  };
  const bool biased = importer.has_input(node, 2);
  const Shape& w = weight.shape();
  const std::int64_t length = output_of(x, w[0], window, false)[2];
  const Living rows = turned(x, {x.shape[1], x.shape[0], x.shape[2]});
  const Living out = importer.add_layer(node, "conv2d",
                                        {{"out", w[0]},
                                         {"kernel", with_row(1, window.kernel)},
                                         {"stride", with_row(1, window.stride)},
                                         {"padding", padding},
                                         {"dilation", with_row(1, window.dilation)},
                                         {"groups", node.integer("group", 1)},
                                         {"bias", std::int64_t{biased}}},
                                        {rows}, {w[0], x.shape[0], length});
  importer.set_weight(out, "weight", weight.reshaped({w[0], w[1], 1, w[2]}));
  if (biased) importer.set_weight(out, "bias", importer.known(node, 2));
  importer.set_output(node, 0, turned(out, {x.shape[0], w[0], length}));
}

void import_conv(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  if (!x.has_batch() && x.shape.size() == 3) return import_conv_of_rows(importer, node, x);
  const Constant& weight = importer.known(node, 1);
  const Shape extents = spatial(importer, node, x);
  const Window window =
      window_of(importer, node, extents, kernel_of(importer, node, weight, extents));
  const bool biased = importer.has_input(node, 2);
  const std::int64_t channels = weight.shape()[0];
  const Living out = importer.add_layer(node, extents.size() == 1 ? "conv1d" : "conv2d",
                                        {{"out", channels},
                                         {"kernel", window.kernel},
                                         {"stride", window.stride},
                                         {"padding", padding_of(window)},
                                         {"dilation", window.dilation},
                                         {"groups", node.integer("group", 1)},
                                         {"bias", std::int64_t{biased}}},
                                        {x}, output_of(x, channels, window, false));
  importer.set_weight(out, "weight", weight);
  if (biased) importer.set_weight(out, "bias", importer.known(node, 2));
  importer.set_output(node, 0, out);
}

// A sequence {batch, channels, length} as an image {batch, channels, length, 1}, for layers that
// know images only; an image stays what it is.
Living as_image(OnnxImporter& importer, const OnnxNode& node, const Living& x) {
  if (x.shape.size() != 3) return x;
  return importer.reshaped(node, x, {x.shape[0], x.shape[1], x.shape[2], 1}, x.batch_axis);
}

Living as_sequence(OnnxImporter& importer, const OnnxNode& node, const Living& image) {
  const Shape& shape = image.shape;
  return importer.reshaped(node, image, {shape[0], shape[1], shape[2]}, image.batch_axis);
}

void add_second_axis(Window& window) {
  for (Shape* one : {&window.kernel, &window.stride, &window.dilation}) one->push_back(1);
  window.before.push_back(0);
  window.after.push_back(0);
}

// Padding that gives the extents that the node asks for; what is missing is added behind the end.
void pad_to_extents(const Shape& extents, const Shape& wanted, bool upper, Window& window,
                    Shape& extra) {
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const std::int64_t all = window.stride[i] * (extents[i] - 1) + extra.at(i) +
                             (window.kernel[i] - 1) * window.dilation[i] + 1 - wanted.at(i);
    if (all < 0) extra[i] -= all;
    const std::int64_t sides = std::max<std::int64_t>(all, 0);
    window.before[i] = upper ? sides / 2 : sides - sides / 2;
    window.after[i] = sides - window.before[i];
  }
}

// The window of a transposed convolution and what is added behind the end.
Window turned_window(OnnxImporter& importer, const OnnxNode& node, const Shape& extents,
                     Shape& extra) {
  const Constant& weight = importer.known(node, 1);
  Window window = window_of(importer, node, extents, kernel_of(importer, node, weight, extents));
  extra = node.integers("output_padding");
  if (extra.empty()) extra.assign(extents.size(), 0);
  const std::string automatic = node.text("auto_pad", "NOTSET");
  const bool upper = automatic == "SAME_UPPER";
  std::vector<std::int64_t> wanted = node.integers("output_shape");
  if (wanted.size() == extents.size() + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (wanted.empty() && (upper || automatic == "SAME_LOWER")) {
    for (std::size_t i = 0; i < extents.size(); ++i)
      wanted.push_back(extents[i] * window.stride[i]);
  }
  if (!wanted.empty()) pad_to_extents(extents, wanted, upper, window, extra);
  return window;
}

// Weights of a transposed convolution are {in, out / groups, kernel}, as the layer has them.
void import_conv_transpose(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  const Shape extents = spatial(importer, node, x);
  Constant weight = importer.known(node, 1);
  Shape extra;
  Window window = turned_window(importer, node, extents, extra);
  const bool is_sequence = extents.size() == 1;
  if (is_sequence) {
    add_second_axis(window);
    extra.push_back(0);
    weight = weight.reshaped({weight.shape()[0], weight.shape()[1], weight.shape()[2], 1});
  }
  const Living in = as_image(importer, node, x);
  const bool biased = importer.has_input(node, 2);
  const std::int64_t groups = node.integer("group", 1);
  const std::int64_t channels = weight.shape()[1] * groups;
  Shape shape = {x.shape[0], channels};
  for (std::size_t i = 0; i < 2; ++i) {
    shape.push_back((in.shape[i + 2] - 1) * window.stride[i] - window.before[i] - window.after[i] +
                    window.dilation[i] * (window.kernel[i] - 1) + extra.at(i) + 1);
  }
  const Living out = importer.add_layer(node, "conv_transpose2d",
                                        {{"out", channels},
                                         {"kernel", window.kernel},
                                         {"stride", window.stride},
                                         {"padding", padding_of(window)},
                                         {"output_padding", extra},
                                         {"dilation", window.dilation},
                                         {"groups", groups},
                                         {"bias", std::int64_t{biased}}},
                                        {in}, shape);
  importer.set_weight(out, "weight", weight);
  if (biased) importer.set_weight(out, "bias", importer.known(node, 2));
  importer.set_output(node, 0, is_sequence ? as_sequence(importer, node, out) : out);
}

// A pool's padding of more than half the window is said side by side.
Shape pool_padding(const Window& window) {
  Shape padding = padding_of(window);
  const bool is_wide =
      2 * window.before[0] > window.kernel[0] || 2 * window.before[1] > window.kernel[1];
  if (padding.size() == 2 && is_wide)
    padding.insert(padding.end(), window.after.begin(), window.after.end());
  return padding;
}

void import_pool(OnnxImporter& importer, const OnnxNode& node) {
  const Living given = importer.living(node, 0);
  const Shape extents = spatial(importer, node, given);
  Window window = window_of(importer, node, extents, node.integers("kernel_shape"));
  const bool round_up = node.integer("ceil_mode", 0) != 0;
  const bool is_max = node.op == "MaxPool";
  if (node.outputs.size() > 1 && !node.outputs[1].empty())
    importer.refuse(node, "it also gives the places of the largest values");
  const bool is_sequence = extents.size() == 1;
  if (is_sequence) add_second_axis(window);
  const bool dilated = window.dilation != Shape(2, 1);
  if (!is_max && dilated) importer.refuse(node, "it takes the mean of numbers apart (dilations)");
  // Small whole numbers are pooled as real ones, which hold them.
  const bool is_small = given.dtype == DType::kUInt8 || given.dtype == DType::kInt8;
  Living x = as_image(importer, node, given);
  if (is_small) x = importer.cast(node, x, DType::kFloat32);
  Attributes attributes = {
      {"kernel", window.kernel}, {"stride", window.stride}, {"padding", pool_padding(window)}};
  if (round_up) attributes["round_up"] = std::int64_t{1};
  if (dilated) attributes["dilation"] = window.dilation;
  if (!is_max && node.integer("count_include_pad", 0) == 0)
    attributes["count_padding"] = std::int64_t{0};
  Living out = importer.add_layer(node, is_max ? "max_pool" : "avg_pool", std::move(attributes),
                                  {x}, output_of(x, x.shape[1], window, round_up));
  if (is_small) out = importer.cast(node, out, given.dtype);
  importer.set_output(node, 0, is_sequence ? as_sequence(importer, node, out) : out);
}

void import_global_pool(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  spatial(importer, node, x);
  Shape shape = {x.shape[0], x.shape[1]};
  Shape axes;
  for (std::size_t i = 2; i < x.shape.size(); ++i) {
    shape.push_back(1);
    axes.push_back(static_cast<std::int64_t>(i) - 1);
  }
  const bool is_max = node.op == "GlobalMaxPool";
  if (x.shape.size() == 4) {
    return importer.set_output(
        node, 0,
        importer.add_layer(node, is_max ? "adaptive_max_pool" : "adaptive_avg_pool",
                           {{"size", std::int64_t{1}}}, {x}, shape));
  }
  importer.set_output(
      node, 0,
      importer.add_layer(
          node, "reduce",
          {{"op", std::string(is_max ? "max" : "mean")}, {"axes", axes}, {"keep", std::int64_t{1}}},
          {x}, shape));
}

void import_batch_norm(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  if (node.integer("training_mode", 0) != 0) importer.refuse(node, "it is in training mode");
  if (x.batch_axis != 0) importer.refuse(node, "the batch is not its first axis");
  // The layer knows {features} and {channels, height, width}; other axes are made one.
  const bool is_plain = x.shape.size() == 2 || x.shape.size() == 4;
  if (x.shape.size() < 2) importer.refuse(node, "its input has no channels");
  const std::int64_t places = element_count(Shape(x.shape.begin() + 2, x.shape.end()));
  const Living in =
      is_plain ? x : importer.reshaped(node, x, {x.shape[0], x.shape[1], places, 1}, 0);
  const Living out =
      importer.add_layer(node, "batch_norm", {{"eps", node.real("epsilon", 1e-5)}}, {in}, in.shape);
  const char* const names[] = {"weight", "bias", "running_mean", "running_var"};
  for (std::size_t i = 0; i < 4; ++i)
    importer.set_weight(out, names[i], importer.known(node, i + 1));
  importer.set_output(node, 0, importer.reshaped(node, out, x.shape, 0));
}

void import_instance_norm(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  if (x.batch_axis != 0) importer.refuse(node, "the batch is not its first axis");
  const Living out = importer.add_layer(node, "instance_norm",
                                        {{"eps", node.real("epsilon", 1e-5)}}, {x}, x.shape);
  importer.set_weight(out, "weight", importer.known(node, 1));
  importer.set_weight(out, "bias", importer.known(node, 2));
  importer.set_output(node, 0, out);
}

void import_local_response_norm(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  spatial(importer, node, x);
  importer.set_output(node, 0,
                      importer.add_layer(node, "local_response_norm",
                                         {{"size", node.integer("size", 1)},
                                          {"alpha", node.real("alpha", 1e-4)},
                                          {"beta", node.real("beta", 0.75)},
                                          {"k", node.real("bias", 1.0)}},
                                         {x}, x.shape));
}

constexpr OnnxOperator kWindows[] = {
    {"Conv", import_conv},
    {"ConvTranspose", import_conv_transpose},
    {"MaxPool", import_pool},
    {"AveragePool", import_pool},
    {"GlobalAveragePool", import_global_pool},
    {"GlobalMaxPool", import_global_pool},
    {"BatchNormalization", import_batch_norm},
    {"InstanceNormalization", import_instance_norm},
    {"LRN", import_local_response_norm},
};

}  // namespace

std::span<const OnnxOperator> onnx_window_operators() { return kWindows; }

}  // namespace harmonics::inline in_models
