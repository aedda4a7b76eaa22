// Time as the lanes of a dispatcher see it: the machine's, or a simulated one that jumps from one
// event to the next.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <utility>

#include <harmonics/base/clock.h>

namespace harmonics::inline in_dispatch {

/// A clock on which threads can sleep. The last four members let a simulated one know when nobody
/// has anything left to do at the present time; the machine's clock ignores them. Thread safe.
class Timeline : public Clock {
 public:
  /// Returns at `when`; of several threads that sleep until the same time, the one with the lowest
  /// `order` goes first.
  virtual void pause_until(Nanoseconds when, std::size_t order) = 0;

  /// A thread begins, or ends, to take part.
  virtual void enter() {}
  virtual void leave() {}
  /// A thread that takes part is about to wait for another one, not for time to pass.
  virtual void block() {}
  /// A thread ends such a wait of another thread; called before that one can go on.
  virtual void unblock() {}
};

class RealTimeline final : public Timeline {
 public:
  [[nodiscard]] Nanoseconds now() const override { return clock_.now(); }
  void pause_until(Nanoseconds when, std::size_t order) override;

 private:
  SteadyClock clock_;
};

/// Starts at zero and advances only when every thread that takes part sleeps or is blocked; then
/// exactly one sleeper goes on. Hours pass in milliseconds, and what happens when does not depend
/// on the machine.
class SimulatedTimeline final : public Timeline {
 public:
  [[nodiscard]] Nanoseconds now() const override;
  void pause_until(Nanoseconds when, std::size_t order) override;
  void enter() override;
  void leave() override;
  void block() override;
  void unblock() override;

 private:
  struct Sleeper {
    std::condition_variable wake;
    bool awake = false;
  };
  void advance_if_quiet();

  mutable std::mutex mutex_;
  Nanoseconds now_{0};
  int active_ = 0;
  std::multimap<std::pair<Nanoseconds, std::size_t>, Sleeper*> sleepers_;
};

}  // namespace harmonics::inline in_dispatch
