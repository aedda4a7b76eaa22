// The variables of this process, read in one place.
#pragma once

#include <optional>
#include <string>

namespace harmonics::inline in_base {

/// The value of an environment variable; nothing where it is not set.
[[nodiscard]] std::optional<std::string> environment_value(const char* name);
/// The same; empty where it is not set.
[[nodiscard]] std::string environment_text(const char* name);

}  // namespace harmonics::inline in_base
