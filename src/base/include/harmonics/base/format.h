// Text formatting for the whole house; `fmt` itself is included here and in no other module.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

namespace harmonics::inline in_base {

template <typename... Args>
using FormatString = fmt::format_string<Args...>;

/// What `format` is: an object, because an unqualified call of a function of that name would also
/// find std::format through its arguments.
struct Format {
  template <typename... Args>
  [[nodiscard]] std::string operator()(FormatString<Args...> text, Args&&... args) const {
    return fmt::format(text, std::forward<Args>(args)...);
  }
};

/// format("{} layers", n): {} placeholders, checked at compile time.
inline constexpr Format format;

}  // namespace harmonics::inline in_base
