#include "elastic_run.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>

#include "elastic/piped_company.h"
#include "stage_events.h"
#include "subcommands.h"

namespace harmonics::inline in_torch_program {
namespace {

// How often the ends of replicas are looked for; their words wake this process at once.
constexpr int kLookMilliseconds = 50;
// How long a replica may take to break off its step while others wait for it.
constexpr std::chrono::minutes kToGather(10);

// Another one died, or this one did, by no fault of its own.
bool was_lost(int status) { return WIFSIGNALED(status) || WEXITSTATUS(status) == kExitLostOthers; }

}  // namespace

ElasticRun::ElasticRun(ElasticTerms terms)
    : terms_(std::move(terms)),
      children_([](std::size_t replica) { return format("replica {}", replica); }),
      keeper_(terms_.replicas, terms_.state_file, terms_.choose_places),
      reports_(terms_.replicas),
      gone_(terms_.replicas, false) {}

void ElasticRun::start(std::size_t replica) {
  std::vector<std::string> environment = terms_.environment(replica);
  environment.push_back(format("{}={}", kOrdersVariable, kChildOrders));
  children_.start_again(replica, terms_.arguments(replica), terms_.token, environment);
  gone_[replica] = false;
  keeper_.started(replica);
}

void ElasticRun::hear(std::size_t replica, const std::string& line, TrainProgress* progress) {
  if (const auto news = decode_news(line)) {
    keeper_.heard(replica, *news);
    return;
  }
  const StageEvent event = decode_event(line);
  if (const auto* report = std::get_if<TrainReport>(&event)) {
    reports_[replica] = *report;
    keeper_.done(replica, static_cast<std::uint64_t>(report->steps));
  }
  if (progress == nullptr) return;
  // All replicas tell the same of a step: the first one is shown.
  if (const auto* step = std::get_if<StepReport>(&event); step && step->step > shown_step_) {
    shown_step_ = step->step;
    progress->on_step(*step);
  }
  if (const auto* epoch = std::get_if<EpochReport>(&event); epoch && epoch->epoch > shown_epoch_) {
    shown_epoch_ = epoch->epoch;
    progress->on_epoch(*epoch);
  }
}

void ElasticRun::listen(TrainProgress* progress) {
  children_.listen(
      [&](std::size_t replica, const std::string& line) { hear(replica, line, progress); });
}

std::optional<Failure> ElasticRun::note_ends() {
  for (std::size_t i = 0; i < terms_.replicas; ++i) {
    const std::optional<int> status = children_.end_of(i);
    if (!status || gone_[i]) continue;
    gone_[i] = true;
    if (reports_[i]) continue;
    if (std::optional<Failure> failure = lose(i, *status)) return failure;
  }
  if (!keeper_.has_lost_all()) return std::nullopt;
  return Failure{"all replicas are gone", !asked_to_end_, asked_to_end_};
}

std::optional<Failure> ElasticRun::lose(std::size_t replica, int status) {
  keeper_.ended(replica);
  if (asked_to_end_) return std::nullopt;
  Failure failure = children_.failure_of(replica);
  if (!was_lost(status)) return failure;
  const bool again = restarts_ < terms_.restarts;
  terms_.notice(format(
      "{}: the others go on without it{}", failure.what,
      again ? format(", and it is started again ({} of {})", restarts_ + 1, terms_.restarts) : ""));
  if (!again) return std::nullopt;
  ++restarts_;
  start(replica);
  return std::nullopt;
}

void ElasticRun::kill_laggards() {
  if (!keeper_.waits_for_standing()) {
    gather_due_.reset();
    return;
  }
  if (!gather_due_) gather_due_ = deadline_in(kToGather);
  if (std::chrono::steady_clock::now() < *gather_due_) return;
  gather_due_.reset();
  for (const std::size_t replica : keeper_.laggards()) children_.signal(replica, SIGKILL);
}

// Those who wait to come back have nothing to come back to once the others are done.
bool ElasticRun::is_over() const {
  bool some_done = false;
  for (std::size_t i = 0; i < terms_.replicas; ++i) {
    if (keeper_.takes_part(i)) return false;
    some_done = some_done || reports_[i].has_value();
    if (reports_[i] && !gone_[i]) return false;  // still on its way out
  }
  return some_done;
}

std::variant<TrainReport, Failure> ElasticRun::run(TrainProgress* progress,
                                                   const InterruptWatch& watch) {
  for (std::size_t i = 0; i < terms_.replicas; ++i) start(i);
  while (!is_over()) {
    children_.wait_for_words(kLookMilliseconds);
    listen(progress);
    if (std::optional<Failure> failure = note_ends()) {
      children_.clear();
      return std::move(*failure);
    }
    for (const ReplicaKeeper::Addressed& one : keeper_.orders()) {
      children_.tell(one.replica, encode_order(one.order));
      if (one.order.kind != KeeperOrder::Kind::kGroup || one.order.file.empty()) continue;
      terms_.notice(format("replica {} is back and goes on with the others", one.replica));
    }
    kill_laggards();
    if (watch.requested() && !asked_to_end_) {
      asked_to_end_ = true;
      children_.signal(SIGTERM);
    }
  }
  children_.clear();
  return **std::ranges::find_if(reports_, [](const auto& one) { return one.has_value(); });
}

}  // namespace harmonics::inline in_torch_program
