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
  /// `scale` names the attribute that holds the factor where it is not new size / old size.
  ResizedAxis(const LayerQuery& q, std::int64_t size, const char* scale)
      : mode_(q.text("mode")),
        places_(q.text("places")),
        rounding_(q.text("rounding")),
        size_(size),
        scale_(q.number_or(scale, 0)),
        sharpness_(q.number_or("cubic", -0.75)),
        inside_only_(q.integer_or("inside_only", 0) != 0),
        antialias_(q.integer_or("antialias", 0) != 0) {}

  // Along `axis`; what lies outside is the nearest edge.
  at::Tensor operator()(const at::Tensor& x, std::int64_t axis) const {
    const std::int64_t from = x.size(axis);
    const Taps taps = mode_ == "nearest" ? nearest(from) : weighted(from);
    at::Tensor sum;
    for (std::size_t tap = 0; tap < taps.indices.size(); ++tap) {
      const at::Tensor taken =
          x.index_select(axis, at::tensor(taps.indices[tap], at::kLong).to(x.device()));
      if (taps.weights.empty()) return taken;
      std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.dim()), 1);
      sizes[static_cast<std::size_t>(axis)] = size_;
      const at::Tensor part =
          taken * at::tensor(taps.weights[tap], at::kDouble).to(x.options()).reshape(sizes);
      sum = sum.defined() ? sum + part : part;
    }
    return sum;
  }

 private:
  /// For each tap the old pixel of every new one and its weight; no weights where one counts whole.
  struct Taps {
    std::vector<std::vector<std::int64_t>> indices;
    std::vector<std::vector<double>> weights;
  };

  Taps nearest(std::int64_t from) const {
    std::vector<std::int64_t> row;
    for (std::int64_t i = 0; i < size_; ++i)
      row.push_back(std::clamp<std::int64_t>(rounded(place(i, from)), 0, from - 1));
    return {{row}, {}};
  }

  Taps weighted(std::int64_t from) const {
    const double pace = antialias_ ? std::min(1.0, factor(from)) : 1.0;
    const double reach = mode_ == "linear" ? 1 : 2;
    const auto begin = static_cast<std::int64_t>(std::floor(-reach / pace)) + 1;
    const auto count = static_cast<std::size_t>(2 - 2 * begin);
    Taps taps{std::vector(count, std::vector<std::int64_t>(static_cast<std::size_t>(size_))),
              std::vector(count, std::vector<double>(static_cast<std::size_t>(size_)))};
    for (std::int64_t i = 0; i < size_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double x = place(i, from);
      const auto left = static_cast<std::int64_t>(std::ceil(x)) - 1 + begin;
      double sum = 0;
      for (std::size_t tap = 0; tap < count; ++tap) {
        const std::int64_t index = left + static_cast<std::int64_t>(tap);
        const bool inside = index >= 0 && index < from;
        const double all = weight((x - static_cast<double>(index)) * pace);
        taps.indices[tap][at] = std::clamp<std::int64_t>(index, 0, from - 1);
        taps.weights[tap][at] = inside || !inside_only_ ? all : 0;
        sum += taps.weights[tap][at];
      }
      for (std::size_t tap = 0; tap < count && (antialias_ || inside_only_); ++tap)
        taps.weights[tap][at] /= sum;
    }
    return taps;
  }

  double factor(std::int64_t from) const {
    return scale_ > 0 ? scale_ : static_cast<double>(size_) / static_cast<double>(from);
  }

  double place(std::int64_t index, std::int64_t from) const {
    const auto i = static_cast<double>(index), in = static_cast<double>(from);
    // The length before it was rounded to whole pixels.
    const double out = scale_ > 0 ? scale_ * in : static_cast<double>(size_);
    if (places_ == "asymmetric") return i * in / out;
    if (places_ == "align_corners") return out > 1 ? i * (in - 1) / (out - 1) : 0;
    if (places_ == "pytorch_half_pixel" && size_ == 1) return 0;
    const double shift =
        places_ == "half_pixel_symmetric" ? in / 2 * (1 - static_cast<double>(size_) / out) : 0;
    return shift + (i + 0.5) * in / out - 0.5;
  }

  std::int64_t rounded(double at) const {
    if (rounding_ == "floor") return static_cast<std::int64_t>(std::floor(at));
    if (rounding_ == "ceil") return static_cast<std::int64_t>(std::ceil(at));
    return static_cast<std::int64_t>(rounding_ == "round_prefer_floor" ? std::ceil(at - 0.5)
                                                                       : std::floor(at + 0.5));
  }

  // Of an old pixel at this distance. Cubic: Keys' kernel.
  double weight(double distance) const {
    const double d = std::abs(distance), a = sharpness_;
    if (mode_ == "linear") return std::max(0.0, 1 - d);
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
  }

  std::string mode_, places_, rounding_;
  std::int64_t size_;
  double scale_, sharpness_;
  bool inside_only_, antialias_;
};

LayerForward make_resize(const LayerQuery& q) {
  const std::vector<std::int64_t> size = both_axes(q, "size");
  const std::string &mode = q.text("mode"), &places = q.text("places");
  // What libtorch has of its own, it does faster.
  const bool corners = places == "align_corners";
  const bool plain =
      !q.has("scale_y") && !q.has("scale_x") && !q.has("antialias") && !q.has("inside_only");
  if (mode == "linear" && plain && (corners || places == "half_pixel")) {
    return [size, corners](const LayerCall& call) {
      return at::upsample_bilinear2d(call.inputs[0], size, corners);
    };
  }
  return [rows = ResizedAxis(q, size[0], "scale_y"), columns = ResizedAxis(q, size[1], "scale_x")](
             const LayerCall& call) { return columns(rows(call.inputs[0], 2), 3); };
}

}  // namespace

LayerKernels resize_kernels() { return {{"resize", make_resize}}; }

}  // namespace harmonics::inline in_runtime
