// What an exception says, whoever threw it.
#pragma once

#include <exception>
#include <string>

namespace harmonics::inline in_base {

/// Never empty. Of an Error its whole text; of other exceptions, which libraries throw, the first
/// line that says something (what follows is a trace for their own developers), and where there is
/// none, which type of exception it was.
[[nodiscard]] std::string exception_text(const std::exception& error);

/// The same of whatever is being handled, also of what is no std::exception: for catch (...).
[[nodiscard]] std::string current_exception_text();

}  // namespace harmonics::inline in_base
