// Logging for every module: one line per event on standard error, named by module.
//
// Thread safe. The level comes from HARMONICS_LOG (trace, debug, info, warn, error, off; default
// warn) and can be changed at run time; tests capture lines through `LogCapture`.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <harmonics/base/format.h>

namespace harmonics::inline in_base {

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kOff };

/// Only lines of at least this level are written.
void set_log_level(LogLevel level);
[[nodiscard]] LogLevel log_level();

/// Writes one line. `module` is the folder name of the module that speaks.
void log_line(LogLevel level, std::string_view module, std::string_view text);

template <typename... Args>
void log_debug(std::string_view module, FormatString<Args...> text, Args&&... args) {
  if (log_level() <= LogLevel::kDebug) {
    log_line(LogLevel::kDebug, module, format(text, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void log_info(std::string_view module, FormatString<Args...> text, Args&&... args) {
  if (log_level() <= LogLevel::kInfo) {
    log_line(LogLevel::kInfo, module, format(text, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void log_warn(std::string_view module, FormatString<Args...> text, Args&&... args) {
  if (log_level() <= LogLevel::kWarn) {
    log_line(LogLevel::kWarn, module, format(text, std::forward<Args>(args)...));
  }
}

/// While it lives, lines of every level go into it instead of standard error: for tests, and for
/// programs whose standard error is data. At most one at a time.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  /// The lines so far, each as "level module: text".
  [[nodiscard]] std::vector<std::string> lines() const;
};

}  // namespace harmonics::inline in_base
