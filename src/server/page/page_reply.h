// What requests of the page are made of and answered with (private to server).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/rpc/views.h>
#include <harmonics/serve/http_door.h>

namespace harmonics::inline in_server {

/// What follows the question mark, decoded; of one name the last counts.
class PageArguments {
 public:
  explicit PageArguments(std::string_view text);
  /// Empty where it is not given.
  [[nodiscard]] const std::string& text(const std::string& name) const;
  /// `otherwise` where it is not given; what is no number from 0 to `most` is an Error
  /// (kInvalidArgument) that names it.
  [[nodiscard]] std::uint64_t number(const std::string& name, std::uint64_t otherwise,
                                     std::uint64_t most) const;
  /// "id", which must be given.
  [[nodiscard]] TaskId task() const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

/// Adds what keeps a browser from doing with an answer what it should not: run scripts of others,
/// guess types, show it in a frame, keep it.
[[nodiscard]] HttpReply guarded(HttpReply reply);

[[nodiscard]] HttpReply json_reply(const Json& json, int status = 200);
/// {"error": "…"}
[[nodiscard]] HttpReply failure_reply(ErrorCode code, std::string_view what);

}  // namespace harmonics::inline in_server
