// HttpStream: the body of an answer that goes on after its head.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace harmonics::inline in_serve {

/// Pieces are sent as they come, until either side ends it. Whoever takes too little is cut. All
/// members may be called from any thread.
class HttpStream {
 public:
  /// Bytes that wait for one who takes them slowly.
  static constexpr std::size_t kMaxBacklog = 8 << 20;

  /// False: nobody listens any more, or has been cut for having more than kMaxBacklog waiting.
  bool send(std::string_view piece);
  /// Nothing more comes; what waits is still sent.
  void end();

  // The door's side.
  /// `ring` is called whenever there is something to look at.
  void attach(std::function<void()> ring);
  /// What waits.
  [[nodiscard]] std::string take();
  /// Nothing waits and nothing more comes.
  [[nodiscard]] bool is_over() const;
  void close();

 private:
  mutable std::mutex mutex_;
  std::string waiting_;
  bool ended_ = false;
  bool closed_ = false;
  std::function<void()> ring_;
};

}  // namespace harmonics::inline in_serve
