#include "policy_patience.h"

#include <algorithm>
#include <utility>

namespace harmonics::inline in_server {

void PolicyPatience::begin_pass() {
  // A pass that did not ask says nothing of the library.
  if (spent_ >= kPassBudget) {
    ++slow_passes_;
  } else if (spent_ > Nanoseconds{}) {
    slow_passes_ = 0;
  }
  spent_ = {};
  told_ = false;
}

PolicyPatience::Verdict PolicyPatience::may_ask(Nanoseconds now) {
  if (banned_) {
    if (now < until_) return Verdict::kLeaveOut;
    banned_ = false;
    return Verdict::kAskAgain;
  }
  if (spent_ < kPassBudget) return Verdict::kAsk;
  return std::exchange(told_, true) ? Verdict::kLeaveOut : Verdict::kSpent;
}

Nanoseconds PolicyPatience::answered(Nanoseconds took, Nanoseconds now) {
  spent_ += std::max(took, Nanoseconds(1));
  crashes_ = 0;
  if (++good_ >= kForgivenAfter) next_ban_ = kFirstBan;
  const bool slow = spent_ >= kPassBudget && slow_passes_ + 1 >= kMaxSlowPasses;
  return slow ? ban(now) : Nanoseconds{};
}

Nanoseconds PolicyPatience::late(Nanoseconds now) { return ban(now); }

Nanoseconds PolicyPatience::crashed(Nanoseconds now) {
  return ++crashes_ < kMaxCrashes ? Nanoseconds{} : ban(now);
}

Nanoseconds PolicyPatience::ban(Nanoseconds now) {
  const Nanoseconds length = next_ban_;
  banned_ = true;
  until_ = now + length;
  next_ban_ = std::min(2 * length, kLongestBan);
  spent_ = {};
  slow_passes_ = crashes_ = good_ = 0;
  return length;
}

}  // namespace harmonics::inline in_server
