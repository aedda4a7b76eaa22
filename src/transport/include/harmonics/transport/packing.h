// Fewer bits for the tensors of a boundary: bfloat16, or integers with a scale for each row
// (docs/formats/packed_tensor.md).
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_transport {

/// Bits of a value on its way: as it is, bfloat16, and integers of 8 and 4 bits.
inline constexpr int kExactBits = 32;
inline constexpr std::array<int, 4> kBoundaryBits = {kExactBits, 16, 8, 4};

/// An Error (kInvalidArgument) unless `bits` is one of kBoundaryBits; `what` names who asked.
void check_bits(int bits, std::string_view what);

/// What the tensors of one boundary are packed to, the same at both of its ends. 0: nobody has said
/// anything, so they are exact.
struct BoundaryBits {
  int activations = 0;
  /// Of gradients; what packing takes from one is added to the next (error feedback).
  int gradients = 0;
  bool operator==(const BoundaryBits&) const = default;

  [[nodiscard]] bool packs_activations() const {
    return activations != 0 && activations < kExactBits;
  }
  [[nodiscard]] bool packs_gradients() const { return gradients != 0 && gradients < kExactBits; }
  [[nodiscard]] bool packs() const { return packs_activations() || packs_gradients(); }
};

/// The bits of all boundaries of a run. A value.
struct BoundaryPacking {
  BoundaryBits all = {};
  /// Of single boundaries; a 0 in them is what `all` says.
  std::map<std::string, BoundaryBits, std::less<>> named = {};
  bool operator==(const BoundaryPacking&) const = default;

  [[nodiscard]] BoundaryBits of(std::string_view boundary) const;
  /// Whether any boundary may be packed.
  [[nodiscard]] bool packs() const;
};

/// Whether a tensor is packed to that many bits: one of floating point whose values have more, with
/// rows that become shorter. It depends on neither the values nor the number of rows.
[[nodiscard]] bool is_packable(const TensorSpec& spec, int bits);
/// Bytes of what pack_tensor gives for such a tensor.
[[nodiscard]] std::uint64_t packed_bytes(const TensorSpec& spec, int bits);

/// The tensor as bytes (uint8, one axis), or the tensor itself where it is not packable. It must be
/// on the CPU. Values that are not finite stay what they are; the others are off by at most half a
/// step of their row's scale (16 bits: 2^-8 of the value), whatever stands in other rows. With 8
/// and 4 bits the first row of a sample that has many is finer than the others. Packing what was
/// unpacked (as float32) gives the same bytes.
[[nodiscard]] Tensor pack_tensor(const Tensor& tensor, int bits);
/// The tensor that was packed, in its dtype and shape. Bytes that pack_tensor did not make are an
/// Error (kDataLoss); memory is taken for at most eight times their number.
[[nodiscard]] Tensor unpack_tensor(const Tensor& packed);

/// Packs a gradient with what packing took from the one before, and keeps what it takes from this
/// one. A residual of another shape counts as none; where a value is not finite, nothing is kept.
[[nodiscard]] Tensor pack_with_residual(const Tensor& gradient, int bits, Tensor& residual);

}  // namespace harmonics::inline in_transport
