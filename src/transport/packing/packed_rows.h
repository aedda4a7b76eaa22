// Rows of float32 as codes, and back (private to transport). Plain loops that compilers vectorise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace harmonics::inline in_transport {

/// The smallest scale: far enough from denormal numbers that a machine which flushes them to zero
/// makes the same codes.
inline constexpr float kSmallestScale = 0x1p-118F;

/// The largest code of a row of such bits.
constexpr int top_code(int bits) { return bits == 8 ? 127 : 7; }
/// Bytes of the codes of a row.
constexpr std::size_t code_bytes(std::size_t count, int bits) {
  return (count * static_cast<std::size_t>(bits) + 7) / 8;
}

/// Codes of one row, and its scale; code times scale is exact in float32. A negative scale marks a
/// row with values that are not finite: there the largest and smallest codes stand for infinities,
/// the one below for NaN. `codes` has code_bytes(values.size(), bits) bytes; `bits` is 8 or 4.
float pack_row(std::span<const float> values, int bits, std::byte* codes);
/// False for a scale or codes that pack_row does not make.
[[nodiscard]] bool unpack_row(const std::byte* codes, int bits, float scale,
                              std::span<float> values);

/// Rounds to the nearest bfloat16 (ties to even); a finite value stays finite.
void pack_bfloat16(std::span<const float> values, std::byte* codes);
void unpack_bfloat16(const std::byte* codes, std::span<float> values);

/// IEEE half precision, likewise.
void pack_float16(std::span<const float> values, std::byte* codes);
void unpack_float16(const std::byte* codes, std::span<float> values);

}  // namespace harmonics::inline in_transport
