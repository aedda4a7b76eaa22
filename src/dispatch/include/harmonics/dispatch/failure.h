// What can go wrong with a sub-batch, and how several failures reach the caller as one.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/dispatch/generator.h>

namespace harmonics::inline in_dispatch {

enum class FailureKind {
  /// The device has too little memory for so many rows: std::bad_alloc or an Error with
  /// kResourceExhausted.
  kOutOfMemory,
  /// The device is gone or broken: an Error with kUnavailable.
  kDeviceLost,
  /// Anything else: the work itself is at fault, on any device.
  kWork,
};

[[nodiscard]] FailureKind failure_kind(const std::exception_ptr& error);

/// What an exception says; never empty (see exception_text.h).
[[nodiscard]] std::string failure_text(const std::exception_ptr& error);

/// The failure with device and rows before its words, where it is the device's (memory, loss):
/// "device 'cuda:0', rows 0 to 344: gone". The type stays Error, with its code, or std::bad_alloc.
/// One of the work itself comes back as it is.
[[nodiscard]] std::exception_ptr located_failure(const std::exception_ptr& error,
                                                 const std::string& device, RowRange rows);

/// Several sub-batches failed before scheduling stopped: the message lists them, `errors` holds the
/// originals. The code is theirs where they agree, else kAborted.
class AggregateError : public Error {
 public:
  /// `more` failures beyond those kept were only counted.
  explicit AggregateError(std::vector<std::exception_ptr> errors, std::size_t more = 0);

  [[nodiscard]] const std::vector<std::exception_ptr>& errors() const { return errors_; }

 private:
  std::vector<std::exception_ptr> errors_;
};

}  // namespace harmonics::inline in_dispatch
