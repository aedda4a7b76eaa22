// How long the server puts up with a policy library (private to server).
#pragma once

#include <chrono>
#include <cstdint>

#include <harmonics/base/clock.h>

namespace harmonics::inline in_server {

/// Decides whether a library is asked or left out, from how it has answered. Pure: time is an
/// argument. One thread.
class PolicyPatience {
 public:
  /// What the library may take of one pass over the queue; `balanced` decides the rest of it.
  static constexpr Nanoseconds kPassBudget = std::chrono::milliseconds(250);
  /// So many passes in a row beyond the budget, or crashes without a good answer between them, and
  /// it is left out; one that is late for an answer at once.
  static constexpr int kMaxSlowPasses = 3;
  static constexpr int kMaxCrashes = 3;
  /// For how long: twice as long each time, until it has answered well for a while.
  static constexpr Nanoseconds kFirstBan = std::chrono::seconds(10);
  static constexpr Nanoseconds kLongestBan = std::chrono::minutes(5);
  static constexpr int kForgivenAfter = 100;

  enum class Verdict : std::uint8_t {
    kAsk,
    kAskAgain,  ///< The first time after it was left out.
    kSpent,     ///< Not in this pass any more; said once a pass.
    kLeaveOut,
  };

  void begin_pass();
  [[nodiscard]] Verdict may_ask(Nanoseconds now);
  // Each gives for how long the library is left out now; zero: it is not.
  /// It answered, whatever it said.
  Nanoseconds answered(Nanoseconds took, Nanoseconds now);
  Nanoseconds late(Nanoseconds now);
  Nanoseconds crashed(Nanoseconds now);  ///< Or it could not be started.

 private:
  Nanoseconds ban(Nanoseconds now);

  Nanoseconds spent_{};
  bool told_ = false;
  int slow_passes_ = 0;
  int crashes_ = 0;
  int good_ = 0;
  bool banned_ = false;
  Nanoseconds until_{};
  Nanoseconds next_ban_ = kFirstBan;
};

}  // namespace harmonics::inline in_server
