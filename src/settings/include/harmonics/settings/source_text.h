// The text that names a source of data, "scheme:path?key=value&…", before anyone opens it.
#pragma once

#include <string>
#include <string_view>

namespace harmonics::inline in_settings {

/// Whether the text has a setting of that name.
[[nodiscard]] bool has_setting(std::string_view source, std::string_view key);

/// The text with one setting more; what would end a value is written as %XX.
[[nodiscard]] std::string with_setting(std::string_view source, std::string_view key,
                                       std::string_view value);

}  // namespace harmonics::inline in_settings
