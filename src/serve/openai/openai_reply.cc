#include "openai/openai_reply.h"

#include <chrono>

#include "openai/openai_json.h"

namespace harmonics::inline in_serve {

int text_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kOutOfRange:
    case ErrorCode::kFailedPrecondition: return 400;
    case ErrorCode::kNotFound: return 404;
    case ErrorCode::kResourceExhausted:
    case ErrorCode::kUnavailable: return 503;
    default: return 500;
  }
}

HttpReply error_reply(int status, std::string_view what) {
  HttpReply reply{status, "application/json", openai_error(what, status), {}};
  if (status == 503) reply.headers.emplace_back("Retry-After", "1");
  if (status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace harmonics::inline in_serve
