#include "sessions.h"

#include <harmonics/base/error.h>

namespace harmonics {

void Sessions::expect(WorkerId worker, Time now) {
  const bool known = views_.contains(worker) && !views_.at(worker).expired;
  views_[worker] = {.connected = false, .epoch = {}, .heard = now, .expired = false};
  if (!known) expiries_.emplace(now + patience_, worker);
}

Epoch Sessions::open(WorkerId worker, Time now) {
  expect(worker, now);
  SessionView& view = views_[worker];
  view.connected = true;
  view.epoch = Epoch{std::uint64_t{term_.value} << 32 | ++opened_};
  return view.epoch;
}

void Sessions::close(WorkerId worker) {
  const auto found = views_.find(worker);
  if (found == views_.end()) return;
  found->second.connected = false;
  found->second.epoch = {};
}

void Sessions::forget(WorkerId worker) { views_.erase(worker); }

void Sessions::heard(WorkerId worker, Time now) { views_.at(worker).heard = now; }

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

std::vector<WorkerId> Sessions::take_expired(Time now) {
  std::vector<WorkerId> gone;
  while (!expiries_.empty() && expiries_.top().first <= now) {
    const WorkerId worker = expiries_.top().second;
    expiries_.pop();
    const auto found = views_.find(worker);
    if (found == views_.end() || found->second.expired) continue;
    const Time due = found->second.heard + patience_;
    if (due > now) {
      expiries_.emplace(due, worker);
      continue;
    }
    found->second.expired = true;
    gone.push_back(worker);
  }
  return gone;
}

Time Sessions::deadline() const { return expiries_.empty() ? kNever : expiries_.top().first; }

}  // namespace harmonics
