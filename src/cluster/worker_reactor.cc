#include <harmonics/base/check.h>
#include <harmonics/cluster/worker_reactor.h>

#include <algorithm>

namespace harmonics::inline in_cluster {

WorkerReactor::WorkerReactor(WorkerSpec spec, std::vector<RecoveredAttempt> recovered,
                             ExtendLease last)
    : spec_(std::move(spec)),
      lease_end_(last.until),
      hold_end_(std::max(last.until, last.hold_until)) {
  for (RecoveredAttempt& one : recovered) {
    Attempt& attempt = attempts_[one.report.id];
    attempt.on_disconnect = one.on_disconnect;
    attempt.launched = one.report.launched;
    attempt.ended = std::move(one.report.ended);
  }
}

void WorkerReactor::handle(const WorkerEvent& event, Time now, std::vector<WorkerEffect>& effects) {
  std::visit([&](const auto& one) { on(one, now, effects); }, event);
}

std::vector<AttemptReport> WorkerReactor::attempts() const {
  std::vector<AttemptReport> reports;
  reports.reserve(attempts_.size());
  for (const auto& [id, attempt] : attempts_) {
    reports.push_back({id, attempt.launched, attempt.ended});
  }
  return reports;
}

// The whole tree must be dead when the lease (or the hold) ends, so stopping begins a grace
// earlier.
Time WorkerReactor::stop_time(OnDisconnect wish) const {
  switch (wish) {
    case OnDisconnect::kStop: return lease_end_ - grace_;
    case OnDisconnect::kContinue: return hold_end_ - grace_;
    case OnDisconnect::kForever: break;
  }
  return kNever;
}

Time WorkerReactor::stop_time(const Attempt& attempt) const {
  return attempt.ended || attempt.lease_stopped ? kNever : stop_time(attempt.on_disconnect);
}

Time WorkerReactor::deadline() const {
  Time next = next_beat_;
  bool live = false;
  for (const auto& [id, attempt] : attempts_) {
    next = std::min(next, stop_time(attempt));
    live = live || !attempt.ended;
  }
  // A session in which nothing is heard any more is left when the lease ends.
  if (live && epoch_ != Epoch{} && !leaving_) {
    next = std::min(next, stop_time(OnDisconnect::kStop));
  }
  return next;
}

void WorkerReactor::on(const Connected&, Time now, Effects& out) {
  epoch_ = {};
  leaving_ = false;
  next_beat_ = kNever;
  unanswered_.clear();
  hello_sent_ = now;
  out.push_back(SendToServer{HelloMessage{spec_, attempts()}});
  for (auto& [id, attempt] : attempts_) {
    attempt.launch_told = attempt.launched;
    attempt.end_told = attempt.ended.has_value();
  }
}

void WorkerReactor::on(const Disconnected&, Time, Effects&) {
  epoch_ = {};
  next_beat_ = kNever;
  unanswered_.clear();
}

void WorkerReactor::on(const ServerSays& event, Time now, Effects& out) {
  if (std::holds_alternative<WelcomeMessage>(event.message)) {
    if (event.epoch <= newest_) return;
    epoch_ = newest_ = event.epoch;
  } else if (event.epoch != epoch_ && !std::holds_alternative<RefusedMessage>(event.message)) {
    return;
  }
  std::visit([&](const auto& message) { obey(message, now, out); }, event.message);
}

void WorkerReactor::on(const ProcessLaunched& event, Time, Effects& out) {
  const auto found = attempts_.find(event.id);
  if (found == attempts_.end()) return;
  found->second.launched = true;
  tell(event.id, found->second, out);
}

void WorkerReactor::on(const ProcessEnded& event, Time, Effects& out) {
  const auto found = attempts_.find(event.id);
  if (found == attempts_.end() || found->second.ended) return;
  found->second.ended = event.result;
  tell(event.id, found->second, out);
}

// Between the hello and the welcome nothing can be said; the welcome makes up for it.
void WorkerReactor::tell(AttemptId id, Attempt& attempt, Effects& out) {
  if (epoch_ == Epoch{}) return;
  if (attempt.launched && !attempt.launch_told && !attempt.ended) {
    out.push_back(SendToServer{LaunchedMessage{id}});
    attempt.launch_told = true;
  }
  if (attempt.ended && !attempt.end_told) {
    out.push_back(SendToServer{EndedMessage{id, *attempt.ended}});
    attempt.end_told = true;
  }
}

void WorkerReactor::on(const WorkerTick&, Time now, Effects& out) {
  if (next_beat_ <= now) beat(now, out);
  stop_at_lease_end(now, out);
}

// The hello that was welcomed counts as the first heartbeat: the server heard it no earlier than it
// was sent.
void WorkerReactor::obey(const WelcomeMessage& message, Time now, Effects& out) {
  spec_.name = message.name;
  lease_ = message.lease;
  heartbeat_ = message.heartbeat;
  grace_ = message.stop_grace;
  hold_ = std::max(message.hold, message.lease);
  // Not the later of this and an earlier one: this server counts by what it says itself.
  lease_end_ = hold_end_ = {};
  extend(hello_sent_, out);
  beat(now, out);
  for (auto& [id, attempt] : attempts_) tell(id, attempt, out);
}

void WorkerReactor::obey(const RefusedMessage& message, Time, Effects& out) {
  out.push_back(GiveUp{message.reason});
}

void WorkerReactor::obey(const LeaseMessage& message, Time, Effects& out) {
  const auto sent = unanswered_.find(message.number);
  if (sent == unanswered_.end()) return;
  const Time at = sent->second;
  unanswered_.erase(unanswered_.begin(), std::next(sent));
  extend(at, out);
}

/// The server has heard what was sent at that moment.
void WorkerReactor::extend(Time sent, Effects& out) {
  if (sent + lease_ <= lease_end_) return;
  lease_end_ = sent + lease_;
  hold_end_ = sent + hold_;
  HARMONICS_CHECK(lease_end_ <= hold_end_, "the hold ends before the lease");
  out.push_back(ExtendLease{lease_end_, hold_end_});
}

void WorkerReactor::obey(const StartMessage& message, Time now, Effects& out) {
  if (attempts_.contains(message.id)) return;
  // Too late to run anything under this lease. A new hello brings a new one, and since it does not
  // list this attempt, the server sends it again.
  if (stop_time(OnDisconnect::kStop) <= now) {
    out.push_back(Reconnect{"a task was to start when the lease was about to end"});
    return;
  }
  attempts_[message.id].on_disconnect = message.spec->on_disconnect;
  out.push_back(Launch{message, lease_end_});
}

void WorkerReactor::obey(const StopMessage& message, Time, Effects& out) {
  const auto found = attempts_.find(message.id);
  if (found == attempts_.end() || found->second.ended) return;
  out.push_back(Stop{message.id, EndKind::kStopped, grace_});
}

void WorkerReactor::obey(const EndAckMessage& message, Time, Effects& out) {
  const auto found = attempts_.find(message.id);
  if (found == attempts_.end() || !found->second.ended) return;
  attempts_.erase(found);
  out.push_back(DropRecord{message.id});
}

void WorkerReactor::beat(Time now, Effects& out) {
  HARMONICS_CHECK(epoch_ != Epoch{}, "a heartbeat outside a session");
  unanswered_[++beats_] = now;
  if (unanswered_.size() > kMaxUnansweredBeats) unanswered_.erase(unanswered_.begin());
  next_beat_ = now + heartbeat_;
  out.push_back(SendToServer{HeartbeatMessage{beats_}});
}

void WorkerReactor::stop_at_lease_end(Time now, Effects& out) {
  bool live = false;
  for (auto& [id, attempt] : attempts_) {
    live = live || !attempt.ended;
    if (stop_time(attempt) > now) continue;
    const bool held = attempt.on_disconnect == OnDisconnect::kContinue;
    const Nanoseconds left = std::max((held ? hold_end_ : lease_end_) - now, Nanoseconds{});
    attempt.lease_stopped = true;
    out.push_back(Stop{id, EndKind::kLeaseLost, std::min(grace_, left)});
  }
  if (!live || epoch_ == Epoch{} || leaving_ || stop_time(OnDisconnect::kStop) > now) return;
  leaving_ = true;
  out.push_back(Reconnect{"the server has not answered for the length of the lease"});
}

}  // namespace harmonics::inline in_cluster
