// Operators that change how large an image is: Pad and Resize.
#include <algorithm>
#include <cmath>

#include "fold.h"
#include "onnx_operators.h"

namespace harmonics::inline in_models {
namespace {

/// How much is added to each axis of a value as ONNX counts; below 0 it is cut off.
struct Sides {
  Shape before, after;
};

Sides sides_of(OnnxImporter& importer, const OnnxNode& node, const Living& x) {
  const std::vector<std::int64_t> pads = importer.list(node, "pads", 1);
  const std::size_t rank = x.shape.size();
  std::vector<std::int64_t> axes;
  if (importer.has_input(node, 3)) {
    axes = importer.known(node, 3).integers();
  } else {
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  const bool sensible = std::all_of(pads.begin(), pads.end(), [](std::int64_t pad) {
    return pad > -1'000'000 && pad < 1'000'000;
  });
  if (pads.size() != 2 * axes.size() || !sensible)
    importer.refuse(node, "it does not name both sides of its axes");
  Sides sides{Shape(rank, 0), Shape(rank, 0)};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t place = front_axis(axes[i], rank);
    sides.before[place] = pads[i];
    sides.after[place] = pads[axes.size() + i];
    if (place == x.batch_axis && (pads[i] != 0 || sides.after[place] != 0))
      importer.refuse(node, "it pads the batch");
  }
  return sides;
}

// What is cut off, before anything is added.
Living cut(OnnxImporter& importer, const OnnxNode& node, Living x, Sides& sides) {
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    const std::int64_t front = std::max<std::int64_t>(0, -sides.before[i]);
    const std::int64_t back = std::max<std::int64_t>(0, -sides.after[i]);
    if (front == 0 && back == 0) continue;
    if (front + back >= x.shape[i]) importer.refuse(node, "it leaves nothing of an axis");
    Shape shape = x.shape;
    shape[i] -= front + back;
    const std::int64_t own = importer.sample_axis(node, x, static_cast<std::int64_t>(i));
    x = importer.add_layer(node, "slice", {{"axis", own}, {"begin", front}, {"count", shape[i]}},
                           {x}, shape);
    sides.before[i] = std::max<std::int64_t>(0, sides.before[i]);
    sides.after[i] = std::max<std::int64_t>(0, sides.after[i]);
  }
  return x;
}

void import_pad(OnnxImporter& importer, const OnnxNode& node) {
  Sides sides = sides_of(importer, node, importer.living(node, 0));
  const Living x = cut(importer, node, importer.living(node, 0), sides);
  const double value =
      importer.has_input(node, 2) ? importer.known(node, 2).real() : node.real("value", 0);
  Shape before, after, shape = x.shape;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    shape[i] += sides.before[i] + sides.after[i];
    if (i == x.batch_axis) continue;
    before.push_back(sides.before[i]);
    after.push_back(sides.after[i]);
  }
  if (shape == x.shape) return importer.set_output(node, 0, x);
  importer.set_output(node, 0,
                      importer.add_layer(node, "pad",
                                         {{"before", before},
                                          {"after", after},
                                          {"mode", node.text("mode", "constant")},
                                          {"value", value}},
                                         {x}, shape));
}

/// The two axes of an image after resizing, and the factors where these are given.
struct Resized {
  Shape size;
  std::vector<double> scales;
};

// Numbers per axis of the value, of which a node may name some only.
template <typename Number>
std::vector<Number> of_all_axes(OnnxImporter& importer, const OnnxNode& node,
                                const std::vector<Number>& given, std::vector<Number> all) {
  const std::vector<std::int64_t> axes = node.integers("axes");
  if (axes.empty()) return given;
  if (axes.size() != given.size()) importer.refuse(node, "it does not name a number per axis");
  for (std::size_t i = 0; i < axes.size(); ++i) all[front_axis(axes[i], all.size())] = given[i];
  return all;
}

// With "not_larger" or "not_smaller" one factor holds for all axes that are named.
void keep_aspect(const OnnxNode& node, const Shape& extents, Resized& resized) {
  const std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch") return;
  double factor = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const double own = static_cast<double>(resized.size[i]) / static_cast<double>(extents[i]);
    const bool first = i == 0;
    factor = first ? own : policy == "not_larger" ? std::min(factor, own) : std::max(factor, own);
  }
  resized.scales.assign(2, factor);
  for (std::size_t i = 0; i < 2; ++i)
    resized.size[i] =
        static_cast<std::int64_t>(std::floor(factor * static_cast<double>(extents[i]) + 0.5));
}

Resized resized_of(OnnxImporter& importer, const OnnxNode& node, const Living& x) {
  const Shape extents(x.shape.begin() + 2, x.shape.end());
  const std::size_t scales_at = importer.opset() >= 11 ? 2 : 1;
  Resized resized;
  if (importer.has_input(node, 3)) {
    const Shape sizes =
        of_all_axes(importer, node, importer.known(node, 3).integers(), Shape(x.shape));
    resized.size = {sizes.at(2), sizes.at(3)};
    const bool whole =
        (sizes.at(0) == 1 || sizes.at(0) == kBatchExtent) && sizes.at(1) == x.shape[1];
    if (!whole) importer.refuse(node, "it resizes the batch or the channels");
    keep_aspect(node, extents, resized);
    return resized;
  }
  const std::vector<double> scales =
      of_all_axes(importer, node, importer.known(node, scales_at).reals(),
                  std::vector<double>(x.shape.size(), 1));
  if (scales.at(0) != 1 || scales.at(1) != 1)
    importer.refuse(node, "it resizes the batch or the channels");
  resized.scales = {scales.at(2), scales.at(3)};
  for (std::size_t i = 0; i < 2; ++i) {
    const double scale = resized.scales[i];
    if (!(scale > 0 && scale < 1000)) importer.refuse(node, "it scales by no number");
    // float32 holds 0.6 as a little more than it is.
    const auto exact = static_cast<float>(scale) * static_cast<float>(extents[i]);
    resized.size.push_back(static_cast<std::int64_t>(std::floor(exact)));
  }
  return resized;
}

void import_resize(OnnxImporter& importer, const OnnxNode& node) {
  const Living x = importer.living(node, 0);
  if (x.batch_axis != 0 || x.shape.size() != 4)
    importer.refuse(node, "only {batch, channels, height, width} is covered");
  const Resized resized = resized_of(importer, node, x);
  const bool is_old = importer.opset() < 11;
  const std::string places =
      node.text("coordinate_transformation_mode", is_old ? "asymmetric" : "half_pixel");
  if (places == "tf_crop_and_resize") importer.refuse(node, "it takes a part of the image (roi)");
  Attributes attributes = {
      {"size", resized.size},
      {"mode", node.text("mode", "nearest")},
      {"places", places},
      {"rounding", node.text("nearest_mode", is_old ? "floor" : "round_prefer_floor")}};
  const char* const names[] = {"scale_y", "scale_x"};
  for (std::size_t i = 0; i < resized.scales.size(); ++i) {
    const double plain = static_cast<double>(resized.size[i]) / static_cast<double>(x.shape[i + 2]);
    if (resized.scales[i] != plain) attributes[names[i]] = resized.scales[i];
  }
  if (node.find("cubic_coeff_a") != nullptr) attributes["cubic"] = node.real("cubic_coeff_a", 0);
  if (node.integer("exclude_outside", 0) != 0) attributes["inside_only"] = std::int64_t{1};
  if (node.integer("antialias", 0) != 0) attributes["antialias"] = std::int64_t{1};
  const Shape shape = {x.shape[0], x.shape[1], resized.size[0], resized.size[1]};
  importer.set_output(node, 0,
                      importer.add_layer(node, "resize", std::move(attributes), {x}, shape));
}

constexpr OnnxOperator kResizing[] = {{"Pad", import_pad}, {"Resize", import_resize}};

}  // namespace

std::span<const OnnxOperator> onnx_resizing_operators() { return kResizing; }

}  // namespace harmonics::inline in_models
