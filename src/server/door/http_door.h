// A small HTTP server for pages that are asked for now and then (private to server).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace harmonics::inline in_server {

struct HttpAnswer {
  int status = 200;
  std::string type = "text/plain";
  std::string body{};
};

/// Answers GET and HEAD, one request per connection. Nobody can hold it up: a connection has
/// `patience` from its first moment to the end of its request, and again for taking its answer;
/// with more than `kMaxConnections` the oldest that has not asked yet is cut.
class HttpDoor {
 public:
  inline static constexpr std::size_t kMaxConnections = 64;
  inline static constexpr std::size_t kMaxRequestBytes = 8192;
  inline static constexpr std::chrono::milliseconds kPatience{5000};

  /// What is at a path; nothing: there is no such page. Called by one thread, may wait.
  using Pages = std::function<std::optional<HttpAnswer>(const std::string& path)>;

  /// Listens from construction on; an Error (kUnavailable) when the address is taken. Port 0 picks
  /// one.
  HttpDoor(const std::string& host, std::uint16_t port, Pages pages,
           std::chrono::milliseconds patience = kPatience);
  ~HttpDoor();
  HttpDoor(const HttpDoor&) = delete;
  HttpDoor& operator=(const HttpDoor&) = delete;
  [[nodiscard]] int port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_server
