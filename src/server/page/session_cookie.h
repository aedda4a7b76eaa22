// Who a browser is once it has shown its token (private to server).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include <harmonics/base/bytes.h>
#include <harmonics/custody/digest.h>

namespace harmonics::inline in_server {

/// How long a browser stays logged in.
inline constexpr std::chrono::hours kSessionLength{12};
/// Of a token that is shown at the login.
inline constexpr std::size_t kMaxLoginTokenBytes = 512;

/// Seals tokens into cookies that only this server can open, also after a restart: nothing is kept
/// here, and a token that is revoked opens nothing any more. Time is seconds since 1970. Thread
/// safe.
class SessionCookies {
 public:
  /// `secret` is the server's own; cookies of another secret are not known here.
  explicit SessionCookies(std::string_view secret);

  /// Hexadecimal text, different every time.
  [[nodiscard]] std::string seal(std::string_view token, std::chrono::seconds now) const;
  /// The token; nothing for a text that was not sealed here, was altered or is too old.
  [[nodiscard]] std::optional<std::string> open(std::string_view cookie,
                                                std::chrono::seconds now) const;
  /// What a request that changes something has to show besides the cookie: a page of another site
  /// cannot read it.
  [[nodiscard]] std::string action_token(std::string_view cookie) const;
  /// In a time that does not depend on where they differ.
  [[nodiscard]] bool is_action_token(std::string_view cookie, std::string_view shown) const;

 private:
  Digest key_;
  Digest action_key_;
};

/// The value of a cookie in a header "a=1; b=2"; empty where there is none.
[[nodiscard]] std::string_view cookie_value(std::string_view header, std::string_view name);

}  // namespace harmonics::inline in_server
