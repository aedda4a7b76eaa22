#include <ATen/ATen.h>

#include <cmath>

#include "kernel_casts.h"
#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

/// The settings of a convolution over `axes` axes.
struct Convolution {
  std::vector<std::int64_t> stride, dilation, padding;
  /// As constant_pad_nd takes it, last axis first; empty where both sides of each axis agree.
  std::vector<std::int64_t> uneven;
  std::int64_t groups;

  Convolution(const LayerQuery& q, std::size_t axes)
      : stride(per_axis(q, "stride", axes)),
        dilation(q.has("dilation") ? per_axis(q, "dilation", axes)
                                   : std::vector<std::int64_t>(axes, 1)),
        padding(q.list("padding")),
        groups(q.integer("groups")) {
    if (padding.size() == 1) padding.resize(axes, padding[0]);
    if (padding.size() != 2 * axes) return;
    bool even = true;
    for (std::size_t axis = axes; axis-- > 0;) {
      uneven.insert(uneven.end(), {padding[axis], padding[axis + axes]});
      even = even && padding[axis] == padding[axis + axes];
    }
    padding.resize(axes);
    if (even) {
      uneven.clear();
    } else {
      padding.assign(axes, 0);
    }
  }

  static std::vector<std::int64_t> per_axis(const LayerQuery& q, std::string_view name,
                                            std::size_t axes) {
    std::vector<std::int64_t> value = q.list(name);
    value.resize(axes, value[0]);
    return value;
  }
};

at::Tensor padded_input(const LayerCall& call, const Convolution& c) {
  const at::Tensor x = as(call.inputs[0], call.compute);
  return c.uneven.empty() ? x : at::constant_pad_nd(x, c.uneven);
}

// libtorch's own convolution rearranges the weights for oneDNN at every call, and takes plain
// products for some sizes of batches. In inference they are rearranged once.
bool is_rearranged(const LayerCall& call) {
  return call.kept != nullptr && call.compute == at::kFloat && at::hasMKLDNN() &&
         at::globalContext().userEnabledMkldnn() && call.inputs[0].numel() > 0;
}

// oneDNN's own kernels, eight channels at a time, compute a sample alike in every batch. What they
// do not cover becomes a product of matrices, cut among threads by the size of the batch.
bool has_own_kernel(const at::Tensor& weight, std::int64_t groups) {
  const std::int64_t in = weight.size(1), out = weight.size(0) / groups;
  if (in == 1 && out == 1) return groups % 8 == 0;
  return out % 8 == 0 && (in % 8 == 0 || (groups == 1 && in <= 3));
}

at::Tensor rearranged_conv2d(const LayerCall& call, const Convolution& c) {
  if (call.kept->empty()) {
    call.kept->push_back(at::mkldnn_reorder_conv2d_weight(call.parameters[0].to_mkldnn(), c.padding,
                                                          c.stride, c.dilation, c.groups));
  }
  const at::Tensor x = padded_input(call, c).contiguous();
  const auto convolved = [&](const at::Tensor& rows) {
    return at::mkldnn_convolution(rows, call.kept->front(), optional_parameter(call, 1), c.padding,
                                  c.stride, c.dilation, c.groups);
  };
  if (x.size(0) == 1 || has_own_kernel(call.parameters[0], c.groups)) return convolved(x);
  std::vector<at::Tensor> rows;
  for (std::int64_t i = 0; i < x.size(0); ++i) rows.push_back(convolved(x.narrow(0, i, 1)));
  return at::cat(rows);
}

// Laid out as the image is, in the same pass over it that rounds it.
at::Tensor weight_for(const at::Tensor& image, const LayerCall& call) {
  if (!image.is_cuda() || image.is_contiguous()) return as(call.parameters[0], call.compute);
  return matrix_parameter(call, 0).to(call.compute, /*non_blocking=*/false, /*copy=*/false,
                                      at::MemoryFormat::ChannelsLast);
}

LayerForward make_conv2d(const LayerQuery& q) {
  return [c = Convolution(q, 2)](const LayerCall& call) {
    if (is_rearranged(call)) return rearranged_conv2d(call, c);
    const at::Tensor x = padded_input(call, c);
    return at::conv2d(x, weight_for(x, call), optional_parameter(call, 1), c.stride, c.padding,
                      c.dilation, c.groups);
  };
}

LayerForward make_conv1d(const LayerQuery& q) {
  return [c = Convolution(q, 1)](const LayerCall& call) {
    return at::conv1d(padded_input(call, c), as(call.parameters[0], call.compute),
                      optional_parameter(call, 1), c.stride, c.padding, c.dilation, c.groups);
  };
}

// Uneven padding is cut off afterwards: the sums stay those of the whole.
LayerForward make_conv_transpose2d(const LayerQuery& q) {
  return [c = Convolution(q, 2), more = both_axes(q, "output_padding")](const LayerCall& call) {
    const at::Tensor y = at::conv_transpose2d(
        as(call.inputs[0], call.compute), as(call.parameters[0], call.compute),
        optional_parameter(call, 1), c.stride, c.padding, more, c.groups, c.dilation);
    if (c.uneven.empty()) return y;
    std::vector<std::int64_t> cut;
    for (const std::int64_t side : c.uneven) cut.push_back(-side);
    return at::constant_pad_nd(y, cut);
  };
}

/// A pool's window. Where each side has a padding of its own, the image is padded first.
struct Window {
  std::vector<std::int64_t> kernel, stride, padding, dilation;
  std::vector<std::int64_t> sides;  // as constant_pad_nd takes them; empty for libtorch's own
  bool round_up, count_padding;

  explicit Window(const LayerQuery& q)
      : kernel(both_axes(q, "kernel")),
        stride(q.has("stride") ? both_axes(q, "stride") : kernel),
        padding(both_axes(q, "padding")),
        dilation(q.has("dilation") ? both_axes(q, "dilation") : std::vector<std::int64_t>{1, 1}),
        round_up(q.integer_or("round_up", 0) != 0),
        count_padding(q.integer_or("count_padding", 1) != 0) {
    if (padding.size() != 4) return;
    sides = {padding[1], padding[3], padding[0], padding[2]};
    padding = {0, 0};
  }

  [[nodiscard]] at::Tensor average(const at::Tensor& x, bool counting) const {
    return at::avg_pool2d(x, kernel, stride, padding, sides.empty() && round_up, counting);
  }

  // `x` with its sides filled with `value`, and `rest` where windows reach beyond them.
  [[nodiscard]] at::Tensor padded(const at::Tensor& x, double value, double rest) const {
    const at::Tensor image = at::constant_pad_nd(x, sides, value);
    return round_up ? at::constant_pad_nd(image, beyond(x), rest) : image;
  }

  // What the last windows reach beyond image and padding, as constant_pad_nd takes it; below 0
  // where they end before it. A window does not begin in the padding behind the image.
  [[nodiscard]] std::vector<std::int64_t> beyond(const at::Tensor& x) const {
    std::vector<std::int64_t> more(4, 0);
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const std::int64_t before = sides[2 - 2 * axis], after = sides[3 - 2 * axis];
      const std::int64_t extent = x.size(static_cast<std::int64_t>(axis) + 2);
      const std::int64_t reach = dilation[axis] * (kernel[axis] - 1) + 1;
      const std::int64_t rest = extent + before + after - reach, pace = stride[axis];
      std::int64_t windows = rest / pace + 1;
      if (rest % pace != 0 && windows * pace < extent + before) ++windows;
      more[3 - 2 * axis] = (windows - 1) * pace - rest;
    }
    return more;
  }
};

LayerForward make_max_pool(const LayerQuery& q) {
  return [w = Window(q)](const LayerCall& call) {
    at::Tensor x =
        w.sides.empty() ? call.inputs[0] : w.padded(call.inputs[0], -INFINITY, -INFINITY);
    // With channels last the windows of several channels are taken at once; the numbers are those
    // of the other order.
    if (call.kept != nullptr) x = x.contiguous(at::MemoryFormat::ChannelsLast);
    return at::max_pool2d(x, w.kernel, w.stride, w.padding, w.dilation,
                          w.sides.empty() && w.round_up);
  };
}

LayerForward make_avg_pool(const LayerQuery& q) {
  return [w = Window(q)](const LayerCall& call) {
    const at::Tensor& x = call.inputs[0];
    if (w.sides.empty()) return w.average(x, w.count_padding);
    const at::Tensor mean = w.average(w.padded(x, 0, 0), true);
    if (w.count_padding && !w.round_up) return mean;
    // What part of each window counts.
    const at::Tensor inside = at::ones({1, 1, x.size(2), x.size(3)}, x.options());
    return mean / w.average(w.padded(inside, w.count_padding ? 1 : 0, 0), true);
  };
}

LayerForward make_adaptive_avg_pool(const LayerQuery& q) {
  return [size = both_axes(q, "size")](const LayerCall& call) {
    return at::adaptive_avg_pool2d(call.inputs[0], size);
  };
}

LayerForward make_adaptive_max_pool(const LayerQuery& q) {
  return [size = both_axes(q, "size")](const LayerCall& call) {
    return std::get<0>(at::adaptive_max_pool2d(call.inputs[0], size));
  };
}

}  // namespace

LayerKernels window_kernels() {
  return {{"conv2d", make_conv2d},
          {"conv1d", make_conv1d},
          {"conv_transpose2d", make_conv_transpose2d},
          {"max_pool", make_max_pool},
          {"avg_pool", make_avg_pool},
          {"adaptive_avg_pool", make_adaptive_avg_pool},
          {"adaptive_max_pool", make_adaptive_max_pool}};
}

}  // namespace harmonics::inline in_runtime
