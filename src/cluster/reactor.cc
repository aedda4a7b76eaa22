#include <harmonics/cluster/reactor.h>

#include <algorithm>

#include <harmonics/base/error.h>

#include "decisions.h"
#include "reactor_parts.h"
#include "requests.h"
#include "worker_talk.h"

namespace harmonics {
namespace {

/// Ended tasks are forgotten in batches of this size, so that a fact is not a task.
constexpr std::size_t kForgetBatch = 1000;

/// Taken by the scheduler itself.
void decide(Decisions&, const PlanMade&) {}

template <typename Event>
void dispatch(Decisions& step, const Event& event) {
  if constexpr (requires { event.request; }) {
    try {
      decide(step, event);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal || error.code() == ErrorCode::kDataLoss) throw;
      step.answer(event.request, Refusal{error.code(), error.what()});
    }
  } else {
    decide(step, event);
  }
}

void end_backoffs(Decisions& step) {
  const auto& delayed = step.tables().delayed;
  while (!delayed.empty() && delayed.begin()->first <= step.now()) {
    step.record(TaskReady{delayed.begin()->second});
  }
}

void forget_oldest(Decisions& step) {
  const auto& ended = step.tables().ended;
  while (ended.size() >= step.options().keep_ended + kForgetBatch) {
    TasksForgotten fact;
    for (const auto& [at, task] : ended) {
      if (fact.tasks.size() == kForgetBatch) break;
      fact.tasks.push_back(task);
    }
    step.record(std::move(fact));
  }
}

}  // namespace

ServerReactor::ServerReactor(ClusterState state, WorkloadPolicy& policy, ServerOptions options,
                             Time now, Outbox& out)
    : parts_(std::make_unique<Parts>(std::move(state), policy, options)) {
  Decisions step(parts_->state, parts_->sessions, parts_->options, now, out);
  step.record(TermStarted{parts_->term, now});
  for (const auto& [id, worker] : step.tables().workers) parts_->sessions.expect(id, now);
}

ServerReactor::~ServerReactor() = default;

void ServerReactor::handle(const ServerEvent& event, Time now, Outbox& out) {
  const std::size_t facts = out.facts.size();
  Decisions step(parts_->state, parts_->sessions, parts_->options, now, out);
  if (const auto* plan = std::get_if<PlanMade>(&event)) {
    parts_->scheduler.plans().take(*plan);
  } else {
    std::visit([&](const auto& one) { dispatch(step, one); }, event);
  }
  if (out.facts.size() != facts || !std::holds_alternative<WorkerSays>(event)) parts_->dirty = true;
}

void ServerReactor::tick(Time now, Outbox& out) {
  const std::size_t facts = out.facts.size();
  Decisions step(parts_->state, parts_->sessions, parts_->options, now, out);
  for (const WorkerId worker : parts_->sessions.take_expired(now)) give_up_worker(step, worker);
  end_backoffs(step);
  forget_oldest(step);
  if (out.facts.size() != facts || parts_->scheduler.deadline() <= now) parts_->dirty = true;
  if (parts_->dirty) parts_->dirty = parts_->scheduler.pass(step);
}

Time ServerReactor::deadline() const {
  if (parts_->dirty) return Time{};
  Time next = std::min(parts_->sessions.deadline(), parts_->scheduler.deadline());
  const std::optional<Time> ready = parts_->state.next_ready();
  return ready ? std::min(next, *ready) : next;
}

const ClusterState& ServerReactor::state() const { return parts_->state; }
const ServerOptions& ServerReactor::options() const { return parts_->options; }

SessionView ServerReactor::session(WorkerId worker) const {
  const SessionView* view = parts_->sessions.find(worker);
  return view == nullptr ? SessionView{} : *view;
}

}  // namespace harmonics
