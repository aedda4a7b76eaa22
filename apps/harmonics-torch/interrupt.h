// Ctrl-C: the first one asks politely, the second one ends the process.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include <harmonics/base/clock.h>
#include <harmonics/base/stop.h>

namespace harmonics::inline in_torch_program {

/// While it lives, the first SIGINT or SIGTERM raises a flag, asks `stop` and says so in a line;
/// the next one has its usual effect. Signals that were blocked until then count. At most one at a
/// time.
///
/// Until the first step_done there is nothing to lose: waits end at once, and a process that is
/// still there some seconds later, for instance because it reads a large file, is ended. From then
/// on a wait may take a few steps longer, so that all parts of a run come to the same end and save
/// it.
class InterruptWatch {
 public:
  /// `says` is false where nothing is to be written to standard error.
  explicit InterruptWatch(bool says = true);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  /// Becomes true with the first signal.
  [[nodiscard]] const std::atomic<bool>& requested() const;
  /// 128 + the number of the signal that came, as shells count; 0 when none came.
  [[nodiscard]] int exit_code() const;
  /// For those who wait.
  [[nodiscard]] const StopRequestPtr& stop() const { return stop_; }

  /// There is work to lose from now on. Any thread.
  void step_done();
  /// Throws an Error (kCancelled) when a signal came; `where` completes "interrupted …".
  void check(const std::string& where) const;
  /// A line on standard error.
  void say(const std::string& text) const;

 private:
  void watch();

  const bool says_;
  const StopRequestPtr stop_ = std::make_shared<StopRequest>();
  std::atomic<std::int64_t> last_step_ns_ = 0;
  std::atomic<std::int64_t> longest_step_ns_ = 0;
  int pipe_[2] = {-1, -1};
  std::thread thread_;
};

/// What `body` returns. If a signal ended it (an Error of the code kCancelled), that is said, and
/// the exit code tells which.
int run_interruptible(const InterruptWatch& watch, const std::function<int()>& body);

/// Whoever starts this program may hold SIGINT and SIGTERM back while it cannot answer yet, so that
/// none falls between: from now on they are let through.
void release_interrupts();

}  // namespace harmonics::inline in_torch_program
