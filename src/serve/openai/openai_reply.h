// Replies that all of OpenAI's calls have in common (private to serve).
#pragma once

#include <cstdint>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/serve/http_door.h>

namespace harmonics::inline in_serve {

/// The status that an Error is answered with.
[[nodiscard]] int text_status(ErrorCode code);
/// With the headers that belong to the status.
[[nodiscard]] HttpReply error_reply(int status, std::string_view what);
[[nodiscard]] std::int64_t unix_seconds();

}  // namespace harmonics::inline in_serve
