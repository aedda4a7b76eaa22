// A door for HTTP requests that bring bodies and take a while, and for answers that go on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/serve/http_query.h>
#include <harmonics/serve/http_stream.h>
#include <harmonics/serve/listen_address.h>

namespace harmonics::inline in_serve {

struct HttpReply {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  /// Further headers.
  std::vector<std::pair<std::string, std::string>> headers = {};
  /// Where there is one it is the body, and the connection ends with it.
  std::shared_ptr<HttpStream> stream = {};
};

/// Nobody can hold it up, and it holds no more than it says: a connection has `patience` (and a
/// second for each kSlowestBytes of its body) from the first byte of a request to its last, and
/// again for taking its answer; one that asks nothing is closed after kIdlePatience, or when it is
/// the oldest of too many. Bodies that together pass kMaxHeldBytes are refused before they are
/// read.
class ServingDoor {
 public:
  static constexpr std::size_t kMaxConnections = 512;
  static constexpr std::size_t kMaxHeldBytes = std::size_t{256} << 20;
  static constexpr std::size_t kSlowestBytes = 64 << 10;
  static constexpr std::chrono::milliseconds kPatience{10'000};
  static constexpr std::chrono::milliseconds kIdlePatience{60'000};

  /// Called once, on any thread.
  using Answer = std::function<void(HttpReply)>;
  /// Called on one of two threads; may answer later. What it throws is answered with status 500.
  using Handler = std::function<void(HttpQuery, Answer)>;

  struct Terms {
    ListenAddress address;
    FrontAccess access;
    std::size_t max_body = 0;
    std::chrono::milliseconds patience = kPatience;
  };

  /// Listens from construction on; an Error when that cannot be.
  ServingDoor(Terms terms, Handler handler);
  /// Cuts every connection. An Answer that comes later goes nowhere.
  ~ServingDoor();
  ServingDoor(const ServingDoor&) = delete;
  ServingDoor& operator=(const ServingDoor&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  /// Lets nobody else in, and waits, so long at most, until all who asked have their answers.
  void finish(std::chrono::milliseconds patience);
  /// Does `work` on one of the two threads.
  void later(std::function<void()> work);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_serve
