// Text formatting for the whole house; `fmt` itself is included here and in no other module.
#pragma once

#include <fmt/core.h>

namespace harmonics {

template <typename... Args>
using FormatString = fmt::format_string<Args...>;

/// format("{} layers", n): {} placeholders, checked at compile time.
using fmt::format;

}  // namespace harmonics
