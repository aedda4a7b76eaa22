#include <harmonics/dispatch/failure.h>

#include <new>

#include <harmonics/base/exception_text.h>

namespace harmonics::inline in_dispatch {
namespace {

// Still a std::bad_alloc for those who catch that.
class LocatedBadAlloc final : public std::bad_alloc {
 public:
  explicit LocatedBadAlloc(std::string text) : text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

ErrorCode code_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.code();
  } catch (const std::bad_alloc&) {
    return ErrorCode::kResourceExhausted;
  } catch (...) {
    return ErrorCode::kUnknown;
  }
}

ErrorCode shared_code(const std::vector<std::exception_ptr>& errors) {
  const ErrorCode first = errors.empty() ? ErrorCode::kAborted : code_of(errors.front());
  for (const std::exception_ptr& error : errors) {
    if (code_of(error) != first) return ErrorCode::kAborted;
  }
  return first;
}

std::string listing(const std::vector<std::exception_ptr>& errors, std::size_t more) {
  std::string text = format("{} sub-batches failed:", errors.size() + more);
  for (const std::exception_ptr& error : errors) text += "\n  " + failure_text(error);
  if (more > 0) text += format("\n  and {} more", more);
  return text;
}

}  // namespace

FailureKind failure_kind(const std::exception_ptr& error) {
  switch (code_of(error)) {
    case ErrorCode::kResourceExhausted: return FailureKind::kOutOfMemory;
    case ErrorCode::kUnavailable: return FailureKind::kDeviceLost;
    default: return FailureKind::kWork;
  }
}

std::string failure_text(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (...) {
    return current_exception_text();
  }
}

std::exception_ptr located_failure(const std::exception_ptr& error, const std::string& device,
                                   RowRange rows) {
  if (failure_kind(error) == FailureKind::kWork) return error;
  const std::string text = format("device '{}', rows {} to {}: {}", device, rows.begin,
                                  rows.end - 1, failure_text(error));
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return std::make_exception_ptr(Error(known.code(), text));
  } catch (...) {
    return std::make_exception_ptr(LocatedBadAlloc(text));
  }
}

AggregateError::AggregateError(std::vector<std::exception_ptr> errors, std::size_t more)
    : Error(shared_code(errors), listing(errors, more)), errors_(std::move(errors)) {}

}  // namespace harmonics::inline in_dispatch
