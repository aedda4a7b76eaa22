// Time and chance of a simulation: everything that happens is an event in one queue.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include <harmonics/base/random.h>
#include <harmonics/cluster/ids.h>

namespace harmonics::inline in_sim {

/// True time, which nobody in the cluster can read, and the one source of chance.
class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed, "world") {}

  [[nodiscard]] Time now() const { return now_; }
  void after(Nanoseconds delay, std::function<void()> action) {
    queue_.push({now_ + std::max(delay, Nanoseconds{}), ++sequence_, std::move(action)});
  }
  /// Lets the next event happen; false when there is none.
  bool step() {
    if (queue_.empty()) return false;
    // The queue hands out const references; the action is moved out just before its entry goes.
    auto& next = const_cast<Event&>(queue_.top());
    now_ = next.at;
    const std::function<void()> action = std::move(next.action);
    queue_.pop();
    action();
    return true;
  }
  [[nodiscard]] std::uint64_t events() const { return sequence_; }

  bool chance(double probability) { return random_.uniform() < probability; }
  std::uint64_t below(std::uint64_t bound) { return random_.below(bound); }
  Nanoseconds between(Nanoseconds low, Nanoseconds high) {
    return low + Nanoseconds(below(static_cast<std::uint64_t>((high - low).count()) + 1));
  }

 private:
  struct Event {
    Time at;
    std::uint64_t sequence;
    std::function<void()> action;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : sequence > other.sequence;
    }
  };

  Random random_;
  Time now_{};
  std::uint64_t sequence_ = 0;
  std::priority_queue<Event> queue_;
};

/// A process's clock: near the wall's time when it starts, then a little too fast or too slow.
class DriftingClock {
 public:
  /// Within 4.5 % of true: two such clocks, one fast and one slow, stay within a drift of a tenth.
  explicit DriftingClock(World& world)
      : born_(world.now()),
        start_(std::chrono::hours(1000) + born_ +
               world.between(Nanoseconds{}, std::chrono::seconds(2))),
        rate_(0.955 + 0.09 * static_cast<double>(world.below(1001)) / 1000) {}

  [[nodiscard]] Time local(Time truth) const {
    const auto passed = static_cast<double>((truth - born_).count());
    return start_ + Nanoseconds(static_cast<std::int64_t>(passed * rate_));
  }
  /// How long in truth until the clock shows `local_time`.
  [[nodiscard]] Nanoseconds until(Time local_time, Time truth) const {
    const Nanoseconds left = local_time - local(truth);
    return Nanoseconds(1 + static_cast<std::int64_t>(static_cast<double>(left.count()) / rate_));
  }

 private:
  Time born_;
  Nanoseconds start_;
  double rate_;
};

}  // namespace harmonics::inline in_sim
