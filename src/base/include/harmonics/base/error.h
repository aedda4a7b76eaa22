// The one exception type of the public API.
//
// Every error says what was wrong, where (file, line, layer, peer) and what to do about it.
// Exceptions of third-party libraries are turned into `Error` in the file that includes the
// library.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <harmonics/base/format.h>

namespace harmonics::inline in_base {

/// Why an operation failed: the short list that gRPC uses, so that errors cross a wire unchanged.
enum class ErrorCode {
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

/// The name of a code in lower case with underscores, for instance "invalid_argument".
std::string_view error_code_name(ErrorCode code);

/// What the public API throws. `what()` is one or more full lines meant for the user.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// Throws an `Error` with a formatted message: `fail(ErrorCode::kNotFound, "no layer '{}'", name)`.
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, FormatString<Args...> text, Args&&... args) {
  throw Error(code, format(text, std::forward<Args>(args)...));
}

/// Throws an `Error` that appends the operating system's reason for `errno_value`.
[[noreturn]] void fail_errno(int errno_value, const std::string& what);

}  // namespace harmonics::inline in_base
