// The variables of this process, read in one place.
#pragma once

#include <string>

namespace harmonics::inline in_base {

/// The value of an environment variable; empty where it is not set.
[[nodiscard]] std::string environment_text(const char* name);

}  // namespace harmonics::inline in_base
