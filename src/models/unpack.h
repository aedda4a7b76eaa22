// Numbers out of packed blocks (private to models).
#pragma once

#include <span>

#include <harmonics/base/bytes.h>
#include <harmonics/models/weight_source.h>

namespace harmonics::inline in_models {

/// Fills `out` from whole blocks; their bytes and the numbers must agree, which the caller checks.
void unpack(Packing packing, ByteSpan blocks, std::span<float> out);

/// The number whose IEEE half-precision bits these are.
[[nodiscard]] float half_value(std::uint16_t bits);

}  // namespace harmonics::inline in_models
