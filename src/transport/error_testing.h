// For tests: what a piece of work throws.
#pragma once

#include <string>

#include <harmonics/base/error.h>

namespace harmonics {

/// The Error that `work` throws as "code: message"; "no error" when it throws none.
template <typename Work>
std::string error_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return format("{}: {}", error_code_name(error.code()), error.what());
  }
  return "no error";
}

}  // namespace harmonics
