#include <harmonics/base/error.h>

#include <cerrno>
#include <system_error>

namespace harmonics::inline in_base {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kUnknown: return "unknown";
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kDeadlineExceeded: return "deadline_exceeded";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kAlreadyExists: return "already_exists";
    case ErrorCode::kPermissionDenied: return "permission_denied";
    case ErrorCode::kResourceExhausted: return "resource_exhausted";
    case ErrorCode::kFailedPrecondition: return "failed_precondition";
    case ErrorCode::kAborted: return "aborted";
    case ErrorCode::kOutOfRange: return "out_of_range";
    case ErrorCode::kUnimplemented: return "unimplemented";
    case ErrorCode::kInternal: return "internal";
    case ErrorCode::kUnavailable: return "unavailable";
    case ErrorCode::kDataLoss: return "data_loss";
    case ErrorCode::kUnauthenticated: return "unauthenticated";
  }
  return "unknown";
}

namespace {

ErrorCode code_of_errno(int value) {
  switch (value) {
    case ENOENT: return ErrorCode::kNotFound;
    case EEXIST: return ErrorCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS: return ErrorCode::kPermissionDenied;
    case ENOSPC:
    case EFBIG:
    case EDQUOT:
    case EMFILE:
    case ENOMEM: return ErrorCode::kResourceExhausted;
    default: return ErrorCode::kUnavailable;
  }
}

}  // namespace

void fail_errno(int errno_value, const std::string& what) {
  fail(code_of_errno(errno_value), "{}: {}", what, std::generic_category().message(errno_value));
}

}  // namespace harmonics::inline in_base
