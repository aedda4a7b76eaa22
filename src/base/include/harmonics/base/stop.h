// StopRequest: ends waits before their deadline, for instance when a signal came.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <harmonics/base/clock.h>

namespace harmonics::inline in_base {

/// Shared by whoever asks and by everything that waits. Thread safe, but not for signal handlers.
///
/// At first a request ends every wait at once: there is nothing that could be lost. Who has begun
/// work that is worth bringing to an end in good order gives waits more time with set_patience.
class StopRequest {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  /// How much longer one wait may take after the request.
  struct Patience {
    /// While the other side can be heard.
    Nanoseconds in_touch{0};
    /// While it cannot.
    Nanoseconds alone{0};
  };

  StopRequest() = default;
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// Asks, once; `why` goes into the Errors of those who waited. A later call does nothing.
  void ask(const std::string& why);
  [[nodiscard]] bool asked() const { return asked_.load(std::memory_order_acquire); }
  /// Empty until it was asked.
  [[nodiscard]] std::string why() const { return asked() ? why_ : std::string(); }

  void set_patience(const Patience& patience);
  /// When a wait ends that began, or was reached by the request, at `from`.
  [[nodiscard]] Instant limit(Instant from, bool in_touch) const;

  /// While it lives, `wake` is called when stop is asked for, on the thread that asks; at once when
  /// that was before. Its end waits for a call under way.
  class Alarm {
   public:
    Alarm(std::shared_ptr<StopRequest> request, std::function<void()> wake);
    ~Alarm();
    Alarm(const Alarm&) = delete;
    Alarm& operator=(const Alarm&) = delete;

   private:
    const std::shared_ptr<StopRequest> request_;
    std::uint64_t key_ = 0;
  };

 private:
  // Alarms ring under it, and take locks of their own: what they may ask for needs none.
  std::mutex mutex_;
  std::atomic<bool> asked_ = false;
  std::string why_;  // does not change once asked_ is set
  std::atomic<std::int64_t> in_touch_ns_ = 0;
  std::atomic<std::int64_t> alone_ns_ = 0;
  std::uint64_t alarms_made_ = 0;
  std::map<std::uint64_t, std::function<void()>> alarms_;
};

using StopRequestPtr = std::shared_ptr<StopRequest>;

}  // namespace harmonics::inline in_base
