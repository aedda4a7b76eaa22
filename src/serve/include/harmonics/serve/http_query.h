// HttpQuery: a request of HTTP/1.1 as it came.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace harmonics::inline in_serve {

/// A value.
struct HttpQuery {
  std::string method;
  /// Without what follows a question mark.
  std::string path;
  /// What follows it, as it was sent.
  std::string arguments;
  /// By name in lower case.
  std::map<std::string, std::string, std::less<>> headers;
  std::string body;
  bool keep_alive = true;
  /// Becomes true when whoever asked has left before the answer; null where nobody looks.
  std::shared_ptr<const std::atomic<bool>> left = {};

  /// Empty where there is none.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

}  // namespace harmonics::inline in_serve
