// Server-sent events to everyone who watches the page (private to server).
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <harmonics/serve/http_stream.h>

#include "server_loop.h"

namespace harmonics::inline in_server {

/// Watchers at one time.
inline constexpr std::size_t kMaxWatchers = 100;
/// How often they are told what is new.
inline constexpr std::chrono::milliseconds kLivePeriod{500};

/// One who watches.
struct Watcher {
  std::string token;      ///< Looked at again every time: who is let in no longer hears no more.
  TaskId task{};          ///< Of which all is told; 0: none.
  std::string last_id{};  ///< The last event that it saw, of an earlier connection.
  std::shared_ptr<HttpStream> stream{};
};

/// A thread that looks at the loop while anyone watches, once for all who see the same. Any thread.
class LiveFeed {
 public:
  /// `loop` must outlive it.
  explicit LiveFeed(ServerLoop& loop);
  /// Ends every stream.
  ~LiveFeed();
  LiveFeed(const LiveFeed&) = delete;
  LiveFeed& operator=(const LiveFeed&) = delete;

  /// False: there are kMaxWatchers.
  [[nodiscard]] bool add(Watcher watcher);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_server
