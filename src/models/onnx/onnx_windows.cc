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
                                 "channels, height, width}} are covered",
                                 shape_text(x.shape)));
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

void import_conv(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
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

// Weights of a transposed convolution are {in, out / groups, kernel}, as the layer has them.
void import_conv_transpose(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  const Constant& weight = importer.known(node, 1);
  const Shape extents = spatial(importer, node, x);
  if (extents.size() != 2) importer.refuse(node, "only two spatial axes are covered");
  const Window window =
      window_of(importer, node, extents, kernel_of(importer, node, weight, extents));
  if (!is_symmetric(window) || node.find("output_shape") != nullptr ||
      node.text("auto_pad", "NOTSET") != "NOTSET") {
    importer.refuse(node, "only padding that is given and equal on both sides is covered");
  }
  std::vector<std::int64_t> extra = node.integers("output_padding");
  if (extra.empty()) extra.assign(2, 0);
  const bool biased = importer.has_input(node, 2);
  const std::int64_t groups = node.integer("group", 1);
  const std::int64_t channels = weight.shape()[1] * groups;
  Shape shape = {x.shape[0], channels};
  for (std::size_t i = 0; i < 2; ++i) {
    shape.push_back((extents[i] - 1) * window.stride[i] - 2 * window.before[i] +
                    window.dilation[i] * (window.kernel[i] - 1) + extra.at(i) + 1);
  }
  const Living out = importer.add_layer(node, "conv_transpose2d",
                                        {{"out", channels},
                                         {"kernel", window.kernel},
                                         {"stride", window.stride},
                                         {"padding", window.before},
                                         {"output_padding", extra},
                                         {"dilation", window.dilation},
                                         {"groups", groups},
                                         {"bias", std::int64_t{biased}}},
                                        {x}, shape);
  importer.set_weight(out, "weight", weight);
  if (biased) importer.set_weight(out, "bias", importer.known(node, 2));
  importer.set_output(node, 0, out);
}

void import_pool(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  const Shape extents = spatial(importer, node, x);
  const Window window = window_of(importer, node, extents, node.integers("kernel_shape"));
  const bool round_up = node.integer("ceil_mode", 0) != 0;
  const bool is_max = node.op == "MaxPool";
  if (node.outputs.size() > 1 && !node.outputs[1].empty())
    importer.refuse(node, "it also gives the places of the largest values");
  if (extents.size() != 2) importer.refuse(node, "only two spatial axes are covered");
  Attributes attributes = {
      {"kernel", window.kernel}, {"stride", window.stride}, {"padding", padding_of(window)}};
  if (round_up) attributes["round_up"] = std::int64_t{1};
  if (is_max && window.dilation != Shape(2, 1)) attributes["dilation"] = window.dilation;
  if (!is_max && node.integer("count_include_pad", 0) == 0)
    attributes["count_padding"] = std::int64_t{0};
  importer.set_output(
      node, 0,
      importer.add_layer(node, is_max ? "max_pool" : "avg_pool", std::move(attributes), {x},
                         output_of(x, x.shape[1], window, round_up)));
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
  // Three axes are seen as {channels, length, 1}: the layer knows one and three.
  const bool is_row = x.shape.size() == 3;
  Living in = x;
  if (is_row) {
    in = importer.add_layer(node, "reshape", {{"shape", Shape{x.shape[1], x.shape[2], 1}}}, {x},
                            {x.shape[0], x.shape[1], x.shape[2], 1});
  }
  Living out =
      importer.add_layer(node, "batch_norm", {{"eps", node.real("epsilon", 1e-5)}}, {in}, in.shape);
  const char* const names[] = {"weight", "bias", "running_mean", "running_var"};
  for (std::size_t i = 0; i < 4; ++i)
    importer.set_weight(out, names[i], importer.known(node, i + 1));
  if (is_row) {
    out = importer.add_layer(node, "reshape", {{"shape", Shape{x.shape[1], x.shape[2]}}}, {out},
                             x.shape);
  }
  importer.set_output(node, 0, out);
}

void import_instance_norm(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  const Living out = importer.add_layer(node, "instance_norm",
                                        {{"eps", node.real("epsilon", 1e-5)}}, {x}, x.shape);
  importer.set_weight(out, "weight", importer.known(node, 1));
  importer.set_weight(out, "bias", importer.known(node, 2));
  importer.set_output(node, 0, out);
}

void import_local_response_norm(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  importer.set_output(node, 0,
                      importer.add_layer(node, "local_response_norm",
                                         {{"size", node.integer("size", 1)},
                                          {"alpha", node.real("alpha", 1e-4)},
                                          {"beta", node.real("beta", 0.75)},
                                          {"k", node.real("bias", 1.0)}},
                                         {x}, x.shape));
}

void import_pad(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  const std::vector<std::int64_t> pads = importer.list(node, "pads", 1);
  const std::size_t rank = x.shape.size();
  const std::string mode = node.text("mode", "constant");
  const bool sensible = std::all_of(pads.begin(), pads.end(), [](std::int64_t pad) {
    return pad > -1'000'000 && pad < 1'000'000;
  });
  if (pads.size() != 2 * rank || importer.has_input(node, 3) || !sensible)
    importer.refuse(node, "it does not name every axis");
  const double value =
      importer.has_input(node, 2) ? importer.known(node, 2).real() : node.real("value", 0);
  Shape before, after, shape = x.shape;
  for (std::size_t i = 0; i < rank; ++i) {
    if (i == x.batch_axis) {
      if (pads[i] != 0 || pads[rank + i] != 0) importer.refuse(node, "it pads the batch");
      continue;
    }
    before.push_back(pads[i]);
    after.push_back(pads[rank + i]);
    shape[i] += pads[i] + pads[rank + i];
  }
  importer.set_output(
      node, 0,
      importer.add_layer(node, "pad",
                         {{"before", before}, {"after", after}, {"mode", mode}, {"value", value}},
                         {x}, shape));
}

void import_resize(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  const Shape extents = spatial(importer, node, x);
  const std::size_t scales_at = importer.opset() >= 11 ? 2 : 1;
  Shape shape = x.shape;
  if (importer.has_input(node, 3)) {
    const std::vector<std::int64_t> sizes = importer.known(node, 3).integers();
    for (std::size_t i = 2; i < shape.size(); ++i) shape[i] = sizes.at(i);
  } else if (importer.has_input(node, scales_at)) {
    const std::vector<double> scales = importer.known(node, scales_at).reals();
    for (std::size_t i = 2; i < shape.size(); ++i) {
      if (!(scales.at(i) > 0 && scales[i] < 1000)) importer.refuse(node, "it scales by no number");
      shape[i] = static_cast<std::int64_t>(std::floor(static_cast<double>(shape[i]) * scales[i]));
    }
  }
  const std::string mode = node.text("mode", "nearest");
  const std::string places = node.text("coordinate_transformation_mode", "half_pixel");
  if (extents.size() != 2) importer.refuse(node, "only two spatial axes are covered");
  importer.set_output(
      node, 0,
      importer.add_layer(node, "resize",
                         {{"size", Shape(shape.begin() + 2, shape.end())},
                          {"mode", mode},
                          {"places", places},
                          {"rounding", node.text("nearest_mode", "round_prefer_floor")}},
                         {x}, shape));
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
    {"Pad", import_pad},
    {"Resize", import_resize},
};

}  // namespace

std::span<const OnnxOperator> onnx_window_operators() { return kWindows; }

}  // namespace harmonics::inline in_models
