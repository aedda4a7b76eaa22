#include <harmonics/dispatch/timeline.h>

#include <sys/prctl.h>
#include <time.h>

#include <cerrno>

namespace harmonics::inline in_dispatch {
namespace {

// Linux lets a sleeper oversleep by 50 us to save power, which would count against every sub-batch.
void sleep_sharply() {
  thread_local const bool set = [] {
    ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    return true;
  }();
  static_cast<void>(set);
}

}  // namespace

void RealTimeline::pause_until(Nanoseconds when, std::size_t /*order*/) {
  sleep_sharply();
  timespec until{};
  until.tv_sec = static_cast<time_t>(when.count() / 1'000'000'000);
  until.tv_nsec = static_cast<long>(when.count() % 1'000'000'000);
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

Nanoseconds SimulatedTimeline::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

void SimulatedTimeline::advance_if_quiet() {
  if (active_ > 0 || sleepers_.empty()) return;
  const auto first = sleepers_.begin();
  now_ = std::max(now_, first->first.first);
  Sleeper* const sleeper = first->second;
  sleepers_.erase(first);
  sleeper->awake = true;
  ++active_;
  sleeper->wake.notify_one();
}

void SimulatedTimeline::pause_until(Nanoseconds when, std::size_t order) {
  std::unique_lock lock(mutex_);
  if (when <= now_) return;
  Sleeper sleeper;
  sleepers_.emplace(std::pair(when, order), &sleeper);
  --active_;
  advance_if_quiet();
  sleeper.wake.wait(lock, [&] { return sleeper.awake; });
}

void SimulatedTimeline::enter() {
  const std::lock_guard lock(mutex_);
  ++active_;
}

void SimulatedTimeline::leave() { block(); }

void SimulatedTimeline::block() {
  const std::lock_guard lock(mutex_);
  --active_;
  advance_if_quiet();
}

void SimulatedTimeline::unblock() {
  const std::lock_guard lock(mutex_);
  ++active_;
}

}  // namespace harmonics::inline in_dispatch
