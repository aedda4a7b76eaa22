// CRC32C (Castagnoli), the checksum of frames: SSE4.2 where the processor has it, tables elsewhere.
#pragma once

#include <cstdint>

#include <harmonics/base/bytes.h>

namespace harmonics::inline in_transport {

/// The CRC of `bytes` when `before` is the CRC of what came before them (0 at the start).
[[nodiscard]] std::uint32_t crc32c(ByteSpan bytes, std::uint32_t before = 0);

/// The two ways that crc32c chooses between; they agree on everything.
[[nodiscard]] std::uint32_t crc32c_portable(ByteSpan bytes, std::uint32_t before);
/// Only where crc32c_has_hardware().
[[nodiscard]] std::uint32_t crc32c_hardware(ByteSpan bytes, std::uint32_t before);
[[nodiscard]] bool crc32c_has_hardware();

}  // namespace harmonics::inline in_transport
