// Text inside XML, for the pictures that we draw.
#pragma once

#include <string>
#include <string_view>

namespace harmonics::inline in_base {

/// `text` as any XML reader takes it, inside an element or an attribute in double quotes: markup
/// escaped, and what XML cannot hold (control characters, bytes that are no UTF-8) replaced by
/// U+FFFD.
[[nodiscard]] std::string xml_text(std::string_view text);

}  // namespace harmonics::inline in_base
