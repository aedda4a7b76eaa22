// Ctrl-C: the first one asks politely, the second one ends the process.
#pragma once

#include <atomic>

namespace harmonics {

/// While it lives, the first SIGINT or SIGTERM only raises a flag; the next one has its usual
/// effect. At most one at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  /// Becomes true with the first signal.
  [[nodiscard]] const std::atomic<bool>& requested() const;
  /// 128 + the number of the signal that came, as shells count; 0 when none came.
  [[nodiscard]] int exit_code() const;
};

}  // namespace harmonics
