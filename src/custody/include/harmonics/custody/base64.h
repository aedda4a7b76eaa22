// Base64 (RFC 4648, section 4): how envelopes of others hold bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <harmonics/base/bytes.h>

namespace harmonics::inline in_custody {

/// With padding, on one line.
[[nodiscard]] std::string to_base64(ByteSpan bytes);
/// Nothing for a text that `to_base64` would not have written: one value has one text.
[[nodiscard]] std::optional<Bytes> from_base64(std::string_view text);

}  // namespace harmonics::inline in_custody
