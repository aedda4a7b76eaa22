// Poses as a slower machine, for trying out plans on machines that are all alike.
#pragma once

#include <chrono>
#include <optional>

#include <harmonics/base/core_clock.h>

namespace harmonics::inline in_base {

/// How many times as long every pass of a model takes.
inline constexpr const char* kSlowdownVariable = "HARMONICS_SLOWDOWN";
inline constexpr double kMaxSlowdown = 1000;

/// What the variable says, 1 where it is not set; anything but a factor from 1 to kMaxSlowdown is
/// an Error.
[[nodiscard]] double slowdown_from_environment();

/// How long a machine that is `factor` times as slow would go on with work that was `spent` on
/// here, of which it `waited` for a core that others had. There it would not have waited: only the
/// rest takes longer.
[[nodiscard]] Nanoseconds slowed_pause(Nanoseconds spent, Nanoseconds waited, double factor);

/// Stands around work on this thread; at its end it makes that pause.
class SlowedWork {
 public:
  explicit SlowedWork(double factor);
  ~SlowedWork();
  SlowedWork(const SlowedWork&) = delete;
  SlowedWork& operator=(const SlowedWork&) = delete;

 private:
  const double factor_;
  std::optional<CoreClock> cores_;  // where there is something to wait for
  CoreTimes before_;
  std::chrono::steady_clock::time_point begun_;
};

}  // namespace harmonics::inline in_base
