// Time as an argument: code that waits or measures takes a Clock, so that tests bring their own.
#pragma once

#include <chrono>

namespace harmonics::inline in_base {

using Nanoseconds = std::chrono::nanoseconds;

[[nodiscard]] inline double in_seconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Monotonic time since an arbitrary start. Implementations are thread safe.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Nanoseconds now() const = 0;
};

/// The machine's steady clock.
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] Nanoseconds now() const override {
    return std::chrono::duration_cast<Nanoseconds>(
        std::chrono::steady_clock::now().time_since_epoch());
  }
};

}  // namespace harmonics::inline in_base
