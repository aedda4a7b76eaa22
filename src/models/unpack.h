// Numbers out of packed blocks (private to models).
#pragma once

#include <span>

#include <harmonics/base/bytes.h>
#include <harmonics/models/weight_source.h>

namespace harmonics::inline in_models {

/// Fills `out` from whole blocks; their bytes and the numbers must agree, which the caller checks.
void unpack(Packing packing, ByteSpan blocks, std::span<float> out);

/// The same number by number, on any machine.
void unpack_plain(Packing packing, ByteSpan blocks, std::span<float> out);
/// The same many at a time, bit for bit; false where this machine, or this file, has no way to.
[[nodiscard]] bool unpack_wide(Packing packing, ByteSpan blocks, std::span<float> out);
/// Numbers of 16 bits as float32 in the same way; `halves`: IEEE's, else bfloat16.
void widen(const std::byte* from, bool halves, std::span<float> out);

/// The number whose IEEE half-precision bits these are.
[[nodiscard]] float half_value(std::uint16_t bits);

}  // namespace harmonics::inline in_models
