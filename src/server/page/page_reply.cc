#include "page_reply.h"

#include <harmonics/base/escaped.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_server {
namespace {

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    unsigned value = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 2 || read.ptr != digits.data() + 2) {
      fail(ErrorCode::kInvalidArgument, "'{}' is no text of an address", escaped(text));
    }
    plain += static_cast<char>(value);
    i += 2;
  }
  return plain;
}

int http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kOutOfRange: return 400;
    case ErrorCode::kUnauthenticated: return 401;
    case ErrorCode::kPermissionDenied: return 403;
    case ErrorCode::kNotFound: return 404;
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kFailedPrecondition:
    case ErrorCode::kAborted: return 409;
    case ErrorCode::kResourceExhausted: return 429;
    case ErrorCode::kDeadlineExceeded: return 504;
    case ErrorCode::kUnavailable:
    case ErrorCode::kCancelled: return 503;
    default: return 500;
  }
}

}  // namespace

PageArguments::PageArguments(std::string_view text) {
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    const std::size_t equals = std::min(one.find('='), one.size());
    const std::string_view value = one.substr(std::min(equals + 1, one.size()));
    values_[decoded(one.substr(0, equals))] = decoded(value);
  }
}

const std::string& PageArguments::text(const std::string& name) const {
  static const std::string kNone;
  const auto found = values_.find(name);
  return found == values_.end() ? kNone : found->second;
}

std::uint64_t PageArguments::number(const std::string& name, std::uint64_t otherwise,
                                    std::uint64_t most) const {
  const std::string& given = text(name);
  if (given.empty()) return otherwise;
  const auto value = number_from<std::uint64_t>(given);
  if (!value || *value > most) {
    fail(ErrorCode::kInvalidArgument, "{}: '{}' is no number from 0 to {}", name, escaped(given),
         most);
  }
  return *value;
}

TaskId PageArguments::task() const {
  if (text("id").empty()) fail(ErrorCode::kInvalidArgument, "say which task: id=NUMBER");
  return {number("id", 0, std::uint64_t{1} << 62)};
}

HttpReply guarded(HttpReply reply) {
  const auto add = [&](const char* name, const char* value) {
    reply.headers.emplace_back(name, value);
  };
  add("Content-Security-Policy", kPolicy);
  add("X-Content-Type-Options", "nosniff");
  add("X-Frame-Options", "DENY");
  add("Referrer-Policy", "no-referrer");
  add("Cross-Origin-Resource-Policy", "same-origin");
  add("Cross-Origin-Opener-Policy", "same-origin");
  add("Cache-Control", "no-store");
  return reply;
}

HttpReply json_reply(const Json& json, int status) {
  return {status, "application/json", escaped_json(json.dump()) + "\n", {}};
}

HttpReply failure_reply(ErrorCode code, std::string_view what) {
  HttpReply reply = json_reply(Json().set("error", what), http_status(code));
  if (reply.status == 503) reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

}  // namespace harmonics::inline in_server
