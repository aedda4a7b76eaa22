// Compression of tensors: zstd over byte planes.
//
// The bytes of all elements are regrouped by significance first (all lowest bytes, then all second
// ones, …): sign and exponent bytes of neighbouring floats resemble each other, mantissas do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <harmonics/base/bytes.h>
#include <harmonics/tensor/buffer.h>

namespace harmonics::inline in_transport {

/// The numbers are part of the frame format: never renumber.
enum class Codec : std::uint8_t { kNone = 0, kZstdPlanes = 1 };

struct Packed {
  BufferPtr buffer;
  std::size_t size = 0;
};

/// Compresses elements of `element_bytes` each; nothing when that does not make them smaller.
[[nodiscard]] std::optional<Packed> pack(ByteSpan raw, std::size_t element_bytes);

/// Restores exactly `raw.size()` bytes into `raw`. Bytes that pack did not make, or of another
/// size, are an Error (kDataLoss); no more than twice raw.size() is ever allocated.
void unpack(ByteSpan packed, std::size_t element_bytes, std::span<std::byte> raw);

}  // namespace harmonics::inline in_transport
