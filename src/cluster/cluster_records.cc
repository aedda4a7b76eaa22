#include <harmonics/cluster/cluster_records.h>

#include <algorithm>

namespace harmonics::inline in_cluster {

std::string_view to_string(EndKind kind) {
  switch (kind) {
    case EndKind::kSucceeded: return "succeeded";
    case EndKind::kFailed: return "failed";
    case EndKind::kSignalled: return "signalled";
    case EndKind::kTimedOut: return "timed_out";
    case EndKind::kStopped: return "stopped";
    case EndKind::kLeaseLost: return "lease_lost";
    case EndKind::kLost: return "lost";
    case EndKind::kRefused: return "refused";
    case EndKind::kUnable: return "unable";
  }
  return "unknown";
}

std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::kCancelled: return "cancelled";
    case StopReason::kPreempted: return "preempted";
    case StopReason::kGangPeer: return "gang_peer";
    case StopReason::kUnknown: return "unknown";
  }
  return "unknown";
}

std::string_view to_string(TaskOutcome outcome) {
  switch (outcome) {
    case TaskOutcome::kSucceeded: return "succeeded";
    case TaskOutcome::kFailed: return "failed";
    case TaskOutcome::kCancelled: return "cancelled";
    case TaskOutcome::kDependencyFailed: return "dependency_failed";
  }
  return "unknown";
}

Ended::Ended(TaskOutcome outcome, Time at, const std::optional<EndResult>& last, std::string plan)
    : outcome(outcome),
      at(at),
      last(last ? std::make_unique<const EndResult>(*last) : nullptr),
      plan(std::move(plan)) {}

Ended::Ended(const Ended& other)
    : outcome(other.outcome),
      at(other.at),
      last(other.last ? std::make_unique<const EndResult>(*other.last) : nullptr),
      plan(other.plan) {}

Ended& Ended::operator=(Ended other) {
  outcome = other.outcome;
  at = other.at;
  last = std::move(other.last);
  plan = std::move(other.plan);
  return *this;
}

bool Ended::operator==(const Ended& other) const {
  if (outcome != other.outcome || at != other.at || plan != other.plan) return false;
  if ((last == nullptr) != (other.last == nullptr)) return false;
  return last == nullptr || *last == *other.last;
}

std::string_view state_name(const TaskState& state) {
  struct Name {
    std::string_view operator()(const Pending&) const { return "pending"; }
    std::string_view operator()(const Waiting&) const { return "waiting"; }
    std::string_view operator()(const Delayed&) const { return "delayed"; }
    std::string_view operator()(const Active&) const { return "active"; }
    std::string_view operator()(const Ended& ended) const { return to_string(ended.outcome); }
  };
  return std::visit(Name{}, state);
}

const std::string& TaskRecord::plan() const {
  static const std::string kNone;
  if (const auto* active = std::get_if<Active>(&state)) return active->plan;
  if (const auto* ended = std::get_if<Ended>(&state)) return ended->plan;
  return kNone;
}

const std::vector<WorkerId>* TaskRecord::places_of(AttemptNumber attempt) const {
  if (attempt == attempts) return places.empty() ? nullptr : &places;
  const auto found = std::ranges::find(past, attempt, &PastAttempt::attempt);
  return found == past.end() ? nullptr : &found->places;
}

bool TaskRecord::operator==(const TaskRecord& other) const {
  return id == other.id && *submission == *other.submission && attempts == other.attempts &&
         failures == other.failures && losses == other.losses && preemptions == other.preemptions &&
         refusals == other.refusals && ran == other.ran && cancelled == other.cancelled &&
         places == other.places && past == other.past && state == other.state;
}

}  // namespace harmonics::inline in_cluster
