// CoreClock: how much of its time a thread computed, and how much it waited for a core.
#pragma once

#include <harmonics/base/clock.h>
#include <harmonics/base/descriptor.h>

namespace harmonics::inline in_base {

/// What the system counts for one thread.
struct CoreTimes {
  /// On a core.
  Nanoseconds cpu{};
  /// Ready to run while others had the cores; 0 where the system does not say.
  Nanoseconds for_core{};
};

/// Of the thread that makes it; used on that thread alone.
class CoreClock {
 public:
  CoreClock();
  [[nodiscard]] CoreTimes now() const;

 private:
  Descriptor counts_;  // the system's own of this thread
};

/// Adds what the thread did until it is destroyed.
class CoreLap {
 public:
  CoreLap(const CoreClock& clock, Nanoseconds& cpu, Nanoseconds& for_core)
      : clock_(clock), cpu_(cpu), for_core_(for_core), begun_(clock.now()) {}
  ~CoreLap() {
    const CoreTimes ended = clock_.now();
    cpu_ += ended.cpu - begun_.cpu;
    for_core_ += ended.for_core - begun_.for_core;
  }
  CoreLap(const CoreLap&) = delete;
  CoreLap& operator=(const CoreLap&) = delete;

 private:
  const CoreClock& clock_;
  Nanoseconds& cpu_;
  Nanoseconds& for_core_;
  const CoreTimes begun_;
};

}  // namespace harmonics::inline in_base
