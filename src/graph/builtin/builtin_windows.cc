// Layers that slide a window over an image or a sequence: convolutions and
// pools.
#include <algorithm>

#include "builtin.h"
#include "builtin_attributes.h"

namespace harmonics::inline in_graph {
namespace {

/// A window along each axis of an image (two) or a sequence (one).
struct SlidingWindow {
  Shape kernel, stride, dilation, before, after;
};

Shape axis_values(const LayerQuery& q, std::string_view name, std::int64_t minimum,
                  std::size_t axes) {
  if (axes == 2) return pair_of(q, name, minimum);
  const Shape value = q.list(name);
  if (value.size() != 1 || value[0] < minimum || value[0] > kLargestWindow) {
    q.refuse(format("'{}' must be one number of at least {}", name, minimum));
  }
  return value;
}

// One number for all sides, one per axis, or one per side: first those before,
// then those behind.
void take_padding(const LayerQuery& q, std::size_t axes, SlidingWindow& window) {
  const Shape given = q.list("padding");
  if (given.size() != 2 * axes) {
    window.before = window.after = axis_values(q, "padding", 0, axes);
    return;
  }
  const auto valid = [](std::int64_t side) { return side >= 0 && side <= kLargestWindow; };
  if (!std::ranges::all_of(given, valid)) q.refuse("'padding' must be numbers of at least 0");
  const auto half = given.begin() + static_cast<std::ptrdiff_t>(axes);
  window.before.assign(given.begin(), half);
  window.after.assign(half, given.end());
}

SlidingWindow convolution_window(const LayerQuery& q, std::size_t axes) {
  SlidingWindow window;
  window.kernel = axis_values(q, "kernel", 1, axes);
  window.stride = axis_values(q, "stride", 1, axes);
  window.dilation =
      q.has("dilation") ? axis_values(q, "dilation", 1, axes) : Shape(axes, std::int64_t{1});
  take_padding(q, axes, window);
  return window;
}

// The axes after the channels once the window has slid over them.
Shape window_output(const LayerQuery& q, const SlidingWindow& window) {
  Shape out;
  for (std::size_t axis = 0; axis < window.kernel.size(); ++axis) {
    const std::int64_t size =
        q.inputs[0].shape[axis + 1] + window.before[axis] + window.after[axis];
    const std::int64_t reach = window.dilation[axis] * (window.kernel[axis] - 1) + 1;
    if (size < reach) {
      q.refuse(format("a window of {} does not fit in {} (with padding)", reach, size));
    }
    out.push_back((size - reach) / window.stride[axis] + 1);
  }
  return out;
}

struct Channels {
  std::int64_t in, out, groups;
};

Channels channels_of(const LayerQuery& q) {
  const Channels c{q.inputs[0].shape[0], q.integer("out", 1), q.integer("groups", 1)};
  if (c.in % c.groups != 0 || c.out % c.groups != 0) {
    q.refuse(format("groups={} must divide the input's {} and the output's {} channels", c.groups,
                    c.in, c.out));
  }
  return c;
}

// `weight` begins with the channels; start values follow the product of all its
// axes but the first.
void add_window_parameters(const LayerQuery& q, LayerShape& result, Shape weight,
                           std::int64_t out) {
  const double bound = kaiming_bound(element_count(Shape(weight.begin() + 1, weight.end())));
  result.parameters.push_back({"weight", std::move(weight), Init::kUniform, bound});
  if (q.integer("bias") != 0) {
    result.parameters.push_back({"bias", {out}, Init::kUniform, bound});
  }
}

LayerShape infer_convolution(const LayerQuery& q, std::size_t axes) {
  need_floating(q);
  need_rank(q, axes + 1, axes == 2 ? "{channels, height, width}" : "{channels, length}");
  const Channels c = channels_of(q);
  const SlidingWindow window = convolution_window(q, axes);
  Shape output = window_output(q, window);
  output.insert(output.begin(), c.out);
  Shape weight = window.kernel;
  weight.insert(weight.begin(), {c.out, c.in / c.groups});
  LayerShape result;
  result.output = {std::move(output), q.inputs[0].dtype};
  result.flops =
      2.0 * elements(result.output.shape) * elements(weight) / static_cast<double>(c.out);
  add_window_parameters(q, result, std::move(weight), c.out);
  return result;
}

LayerShape infer_conv2d(const LayerQuery& q) { return infer_convolution(q, 2); }
LayerShape infer_conv1d(const LayerQuery& q) { return infer_convolution(q, 1); }

LayerShape infer_conv_transpose2d(const LayerQuery& q) {
  need_floating(q);
  need_rank(q, 3, "{channels, height, width}");
  const Channels c = channels_of(q);
  const SlidingWindow window = convolution_window(q, 2);
  const Shape more = pair_of(q, "output_padding", 0);
  Shape output = {c.out};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (more[axis] >= std::max(window.stride[axis], window.dilation[axis])) {
      q.refuse("'output_padding' must be below the stride or the dilation");
    }
    output.push_back((q.inputs[0].shape[axis + 1] - 1) * window.stride[axis] - window.before[axis] -
                     window.after[axis] + window.dilation[axis] * (window.kernel[axis] - 1) +
                     more[axis] + 1);
    if (output.back() < 1) q.refuse("its padding leaves nothing");
  }
  Shape weight = {c.in, c.out / c.groups, window.kernel[0], window.kernel[1]};
  LayerShape result;
  result.output = {std::move(output), q.inputs[0].dtype};
  result.flops = 2.0 * elements(q.inputs[0].shape) * elements(weight) / static_cast<double>(c.in);
  add_window_parameters(q, result, std::move(weight), c.out);
  return result;
}

// One or two numbers may be half of the kernel; where each side is given, a window may not lie
// outside as a whole.
void check_pool_padding(const LayerQuery& q, const SlidingWindow& window) {
  const bool each_side = q.list("padding").size() == 4;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t most = std::max(window.before[axis], window.after[axis]);
    if (!each_side && 2 * most > window.kernel[axis]) {
      q.refuse("padding must be at most half of the kernel");
    }
    if (each_side && most >= window.kernel[axis]) q.refuse("padding must be below the kernel");
  }
}

// Rounded up, but the last window begins inside the image or before it.
std::int64_t rounded_up(std::int64_t windows, std::int64_t rest, std::int64_t begins_before,
                        std::int64_t stride) {
  return rest % stride != 0 && windows * stride < begins_before ? windows + 1 : windows;
}

LayerShape infer_pool(const LayerQuery& q) {
  need_floating(q);
  need_rank(q, 3, "{channels, height, width}");
  SlidingWindow window;
  window.kernel = pair_of(q, "kernel", 1);
  window.stride = q.has("stride") ? pair_of(q, "stride", 1) : window.kernel;
  window.dilation = q.has("dilation") ? pair_of(q, "dilation", 1) : Shape{1, 1};
  take_padding(q, 2, window);
  check_pool_padding(q, window);
  const Shape& in = q.inputs[0].shape;
  Shape size = window_output(q, window);
  for (std::size_t axis = 0; axis < 2 && q.integer_or("round_up", 0) != 0; ++axis) {
    const std::int64_t reach = window.dilation[axis] * (window.kernel[axis] - 1) + 1;
    const std::int64_t rest = in[axis + 1] + window.before[axis] + window.after[axis] - reach;
    size[axis] =
        rounded_up(size[axis], rest, in[axis + 1] + window.before[axis], window.stride[axis]);
  }
  const Shape& kernel = window.kernel;
  LayerShape result;
  result.output = {{q.inputs[0].shape[0], size[0], size[1]}, q.inputs[0].dtype};
  result.flops = elements(result.output.shape) * static_cast<double>(kernel[0] * kernel[1]);
  return result;
}

LayerShape infer_adaptive_pool(const LayerQuery& q) {
  need_floating(q);
  need_rank(q, 3, "{channels, height, width}");
  const Shape size = pair_of(q, "size", 1);
  LayerShape result;
  result.output = {{q.inputs[0].shape[0], size[0], size[1]}, q.inputs[0].dtype};
  result.flops = elements(q.inputs[0].shape);
  return result;
}

}  // namespace

std::vector<LayerType> window_layer_types() {
  const std::vector<AttributeSpec> pool = {required("kernel"), optional("stride"),
                                           with_default("padding", std::int64_t{0}),
                                           optional("round_up")};
  std::vector<AttributeSpec> max_pool = pool, avg_pool = pool;
  max_pool.push_back(optional("dilation"));
  avg_pool.push_back(optional("count_padding"));
  const std::vector<AttributeSpec> convolution = {required("out"),
                                                  required("kernel"),
                                                  with_default("stride", std::int64_t{1}),
                                                  with_default("padding", std::int64_t{0}),
                                                  with_default("groups", std::int64_t{1}),
                                                  with_default("bias", std::int64_t{1}),
                                                  optional("dilation")};
  std::vector<AttributeSpec> transposed = convolution;
  transposed.push_back(with_default("output_padding", std::int64_t{0}));
  return {
      {"conv2d", convolution, 1, 1, infer_conv2d},
      {"conv1d", convolution, 1, 1, infer_conv1d},
      {"conv_transpose2d", transposed, 1, 1, infer_conv_transpose2d},
      {"max_pool", max_pool, 1, 1, infer_pool},
      {"avg_pool", avg_pool, 1, 1, infer_pool},
      {"adaptive_avg_pool", {required("size")}, 1, 1, infer_adaptive_pool},
      {"adaptive_max_pool", {required("size")}, 1, 1, infer_adaptive_pool},
  };
}

}  // namespace harmonics::inline in_graph
