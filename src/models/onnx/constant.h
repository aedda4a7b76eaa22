// Constant: a tensor whose numbers are known while a file is imported (private to models).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/models/weight_source.h>
#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_models {

/// More numbers than this are not computed at import.
inline constexpr std::int64_t kMaxFoldedElements = std::int64_t{1} << 26;
/// One number may fill this many: no bytes of a file stand behind them.
inline constexpr std::int64_t kMaxFilledElements = std::int64_t{1} << 28;

/// Looks into the file's bytes, owns its numbers, or holds one number that fills the whole shape
/// (which takes no memory until `tensor` is asked for). A value; copies share.
class Constant {
 public:
  Constant() = default;
  /// Bytes of the file: not aligned, and outliving this.
  Constant(TensorSpec spec, ByteSpan bytes) : spec_(std::move(spec)), bytes_(bytes) {}
  explicit Constant(Tensor owned);
  [[nodiscard]] static Constant of_integers(Shape shape, const std::vector<std::int64_t>& values,
                                            DType dtype = DType::kInt64);
  [[nodiscard]] static Constant of_reals(Shape shape, const std::vector<double>& values,
                                         DType dtype = DType::kFloat32);
  /// `one` holds a single number, which every element has.
  [[nodiscard]] static Constant filled(Shape shape, const Constant& one);

  [[nodiscard]] const Shape& shape() const { return spec_.shape; }
  [[nodiscard]] DType dtype() const { return spec_.dtype; }
  [[nodiscard]] const TensorSpec& spec() const { return spec_; }
  [[nodiscard]] std::int64_t size() const { return element_count(spec_.shape); }

  /// Every number; floating-point ones are rounded towards zero, and one that fits no int64 is the
  /// nearest that does. Above kMaxFoldedElements an Error.
  [[nodiscard]] std::vector<std::int64_t> integers() const;
  [[nodiscard]] std::vector<double> reals() const;
  /// A single number.
  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] double real() const;
  /// All of it in memory of its own, aligned. One number that fills more than kMaxFilledElements is
  /// an Error.
  [[nodiscard]] Tensor tensor() const;
  /// The first whole number that float32 cannot hold, if there is one; nothing for real numbers.
  [[nodiscard]] std::optional<std::int64_t> beyond_float32() const;
  /// The same bytes under another shape of equal size.
  [[nodiscard]] Constant reshaped(Shape shape) const;
  /// The matrix with its rows as columns.
  [[nodiscard]] Constant transposed() const;
  /// The initializer whose numbers these are; without a name for what was worked out.
  [[nodiscard]] const WeightOrigin& origin() const { return origin_; }
  void set_origin(WeightOrigin origin) { origin_ = std::move(origin); }
  /// The element `from(i)` of this at each place i of `shape`.
  template <typename From>
  [[nodiscard]] Constant moved(Shape shape, From&& from) const;

 private:
  static void check_folded(std::int64_t count);

  TensorSpec spec_;
  Tensor owned_;
  ByteSpan bytes_;
  bool is_fill_ = false;
  WeightOrigin origin_;
};

template <typename From>
Constant Constant::moved(Shape shape, From&& from) const {
  if (is_fill_) return filled(std::move(shape), *this);
  check_folded(element_count(shape));
  Tensor out = Tensor::empty(std::move(shape), spec_.dtype);
  const std::size_t width = dtype_size(spec_.dtype);
  const std::span<std::byte> to = out.mutable_bytes();
  for (std::int64_t i = 0; i < out.size(); ++i) {
    const ByteSpan one = bytes_.subspan(static_cast<std::size_t>(from(i)) * width, width);
    std::copy(one.begin(), one.end(), to.begin() + i * static_cast<std::ptrdiff_t>(width));
  }
  return Constant(std::move(out));
}

}  // namespace harmonics::inline in_models
