// libtorch's exceptions turned into ours (private to runtime).
#pragma once

#include <c10/util/Exception.h>

#include <string>
#include <string_view>

#include <harmonics/base/error.h>

namespace harmonics::inline in_runtime {

/// Calls `function`; an error of libtorch gets the name of what was being computed. Out of device
/// memory (libtorch's text names the size and what is free) is kResourceExhausted.
template <typename Function>
auto guarded(std::string_view what, std::string_view name, Function&& function) {
  try {
    return function();
  } catch (const c10::Error& error) {
    std::string text = error.what_without_backtrace();
    if (const auto end = text.find('\n'); end != std::string::npos) text.resize(end);
    const bool memory = text.find("out of memory") != std::string::npos;
    fail(memory ? ErrorCode::kResourceExhausted : ErrorCode::kInvalidArgument, "{} '{}': {}", what,
         name, text);
  }
}

}  // namespace harmonics::inline in_runtime
