#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "kernel_casts.h"
#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

/// How one axis of an image is resized, as ONNX says it: where each new pixel lies among the old
/// ones, and which of those it is made of.
class ResizedAxis {
 public:
  ResizedAxis(const LayerQuery& q, std::int64_t size)
      : mode_(q.text("mode")),
        places_(q.text("places")),
        rounding_(q.text("rounding")),
        size_(size) {}

  // Along `axis`; what lies outside is the nearest edge.
  at::Tensor operator()(const at::Tensor& x, std::int64_t axis) const {
    const std::int64_t taps = mode_ == "nearest" ? 1 : mode_ == "linear" ? 2 : 4;
    const std::int64_t from = x.size(axis);
    at::Tensor sum;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      std::vector<std::int64_t> indices;
      std::vector<double> weights;
      for (std::int64_t i = 0; i < size_; ++i) {
        const double at = place(i, from);
        const std::int64_t left = first(at);
        indices.push_back(std::clamp<std::int64_t>(left + tap, 0, from - 1));
        weights.push_back(weight(at - static_cast<double>(left + tap)));
      }
      const at::Tensor taken = x.index_select(axis, at::tensor(indices, at::kLong).to(x.device()));
      if (taps == 1) return taken;
      std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.dim()), 1);
      sizes[static_cast<std::size_t>(axis)] = size_;
      const at::Tensor part =
          taken * at::tensor(weights, at::kDouble).to(x.options()).reshape(sizes);
      sum = sum.defined() ? sum + part : part;
    }
    return sum;
  }

 private:
  double place(std::int64_t index, std::int64_t from) const {
    const auto i = static_cast<double>(index), out = static_cast<double>(size_);
    const auto in = static_cast<double>(from);
    if (places_ == "asymmetric") return i * in / out;
    if (places_ == "align_corners") return size_ > 1 ? i * (in - 1) / (out - 1) : 0;
    if (places_ == "pytorch_half_pixel" && size_ == 1) return 0;
    return (i + 0.5) * in / out - 0.5;
  }

  // The first of the old pixels that count.
  std::int64_t first(double at) const {
    if (mode_ == "linear") return static_cast<std::int64_t>(std::floor(at));
    if (mode_ == "cubic") return static_cast<std::int64_t>(std::floor(at)) - 1;
    if (rounding_ == "floor") return static_cast<std::int64_t>(std::floor(at));
    if (rounding_ == "ceil") return static_cast<std::int64_t>(std::ceil(at));
    return static_cast<std::int64_t>(rounding_ == "round_prefer_floor" ? std::ceil(at - 0.5)
                                                                       : std::floor(at + 0.5));
  }

  // Of an old pixel at this distance. Cubic: Keys' kernel with a = -0.75.
  double weight(double distance) const {
    const double d = std::abs(distance), a = -0.75;
    if (mode_ != "cubic") return 1 - d;
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  }

  std::string mode_, places_, rounding_;
  std::int64_t size_;
};

LayerForward make_resize(const LayerQuery& q) {
  const std::vector<std::int64_t> size = both_axes(q, "size");
  const std::string &mode = q.text("mode"), &places = q.text("places");
  // What libtorch has of its own, it does faster.
  const bool corners = places == "align_corners";
  if (mode == "linear" && (corners || places == "half_pixel")) {
    return [size, corners](const LayerCall& call) {
      return at::upsample_bilinear2d(call.inputs[0], size, corners);
    };
  }
  return [rows = ResizedAxis(q, size[0]), columns = ResizedAxis(q, size[1])](
             const LayerCall& call) { return columns(rows(call.inputs[0], 2), 3); };
}

}  // namespace

LayerKernels resize_kernels() { return {{"resize", make_resize}}; }

}  // namespace harmonics::inline in_runtime
