#include "sessions.h"

#include <algorithm>
#include <cmath>

#include <harmonics/base/check.h>

namespace harmonics::inline in_cluster {

Nanoseconds Sessions::with_drift(Nanoseconds duration, const ServerOptions& options) {
  const double share = static_cast<double>(options.drift.count()) /
                       static_cast<double>(std::max<std::int64_t>(options.lease.count(), 1));
  return duration + Nanoseconds(std::llround(static_cast<double>(duration.count()) * share));
}

void Sessions::expect(WorkerId worker, Time now) {
  renew(worker, now);
  expiries_.emplace(now + unmet_.lease, worker);
}

void Sessions::renew(WorkerId worker, Time now) {
  // One that says hello is tried at once, but still one task at a time.
  Inability unable = std::move(views_[worker].unable);
  holds_.erase({views_[worker].hold_over, worker});
  rests_.erase({unable.until, worker});
  unable.until = {};
  unable.trying = false;
  SessionView fresh;
  fresh.heard = now;
  fresh.unable = std::move(unable);
  views_[worker] = std::move(fresh);
}

Epoch Sessions::open(WorkerId worker, Time now) {
  const SessionView* before = find(worker);
  const bool waited_for = before != nullptr && !before->expired && before->met;
  renew(worker, now);
  if (!waited_for) expiries_.emplace(now + met_.lease, worker);
  SessionView& view = views_[worker];
  view.met = true;
  view.connected = true;
  HARMONICS_CHECK(opened_ < UINT32_MAX, "a server's term has had {} sessions", opened_);
  view.epoch = Epoch{std::uint64_t{term_.value} << 32 | ++opened_};
  return view.epoch;
}

void Sessions::close(WorkerId worker) {
  const auto found = views_.find(worker);
  if (found == views_.end()) return;
  found->second.connected = false;
  found->second.epoch = {};
}

void Sessions::forget(WorkerId worker) {
  const auto found = views_.find(worker);
  if (found == views_.end()) return;
  rests_.erase({found->second.unable.until, worker});
  holds_.erase({found->second.hold_over, worker});
  views_.erase(found);
}

void Sessions::heard(WorkerId worker, Time now) { view_of(worker).heard = now; }

SessionView& Sessions::view_of(WorkerId worker) {
  const auto found = views_.find(worker);
  HARMONICS_CHECK(found != views_.end(), "worker {} has no session", worker.value);
  return found->second;
}

const SessionView* Sessions::find(WorkerId worker) const {
  const auto found = views_.find(worker);
  return found == views_.end() ? nullptr : &found->second;
}

bool Sessions::current(WorkerId worker, Epoch epoch) const {
  const SessionView* view = find(worker);
  return view != nullptr && view->connected && view->epoch == epoch;
}

bool Sessions::expired(WorkerId worker) const {
  const SessionView* view = find(worker);
  return view == nullptr || view->expired;
}

bool Sessions::unable(WorkerId worker, const std::string& reason, Time now) {
  Inability& unable = views_[worker].unable;
  unable.trying = false;
  unable.reason = reason;
  // What was sent to it before it began to rest comes back too: that is one trouble, not many.
  if (unable.until != Time{}) return false;
  constexpr std::uint32_t kMostDoublings = 20;
  const std::int64_t factor = std::int64_t{1} << std::min(unable.times, kMostDoublings);
  const Nanoseconds rest = rest_ > max_rest_ / factor ? max_rest_ : rest_ * factor;
  unable.times = std::min(unable.times + 1, kMostDoublings);
  unable.until = now + rest;
  const bool rests = rests_.emplace(unable.until, worker).second;
  HARMONICS_CHECK(rests, "worker {} rests twice", worker.value);
  return true;
}

bool Sessions::tried(WorkerId worker, bool well) {
  const auto found = views_.find(worker);
  if (found == views_.end() || found->second.unable.times == 0) return false;
  Inability& unable = found->second.unable;
  unable.trying = false;
  if (well) unable.times /= 2;
  return true;
}

bool Sessions::give(WorkerId worker) {
  const auto found = views_.find(worker);
  if (found == views_.end() || found->second.unable.times == 0) return false;
  found->second.unable.trying = true;
  return true;
}

bool Sessions::resting(WorkerId worker) const {
  const SessionView* view = find(worker);
  return view != nullptr && view->unable.resting();
}

std::vector<WorkerId> Sessions::take_rested(Time now) {
  std::vector<WorkerId> rested;
  while (!rests_.empty() && rests_.begin()->first <= now) {
    rested.push_back(rests_.begin()->second);
    view_of(rested.back()).unable.until = {};
    rests_.erase(rests_.begin());
  }
  return rested;
}

std::vector<WorkerId> Sessions::take_expired(Time now) {
  std::vector<WorkerId> gone;
  while (!expiries_.empty() && expiries_.top().first <= now) {
    const WorkerId worker = expiries_.top().second;
    expiries_.pop();
    const auto found = views_.find(worker);
    if (found == views_.end() || found->second.expired) continue;
    const Time due = found->second.heard + patience(found->second).lease;
    if (due > now) {
      expiries_.emplace(due, worker);
      continue;
    }
    found->second.expired = true;
    found->second.hold_over = found->second.heard + patience(found->second).hold;
    const bool held = holds_.emplace(found->second.hold_over, worker).second;
    HARMONICS_CHECK(held, "worker {} is held twice", worker.value);
    gone.push_back(worker);
  }
  return gone;
}

std::vector<WorkerId> Sessions::take_overdue(Time now) {
  std::vector<WorkerId> gone;
  while (!holds_.empty() && holds_.begin()->first <= now) {
    gone.push_back(holds_.begin()->second);
    holds_.erase(holds_.begin());
    view_of(gone.back()).hold_over = {};
  }
  return gone;
}

Time Sessions::deadline() const {
  Time next = expiries_.empty() ? kNever : expiries_.top().first;
  if (!holds_.empty()) next = std::min(next, holds_.begin()->first);
  return rests_.empty() ? next : std::min(next, rests_.begin()->first);
}

}  // namespace harmonics::inline in_cluster
