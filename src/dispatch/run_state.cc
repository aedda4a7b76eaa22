#include "run_state.h"

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics {

RunState::RunState(WorkScheduler& scheduler, std::vector<std::size_t> row_caps,
                   const std::vector<int>& lanes)
    : scheduler_(scheduler),
      row_caps_(std::move(row_caps)),
      loads_(lanes.size()),
      queues_(lanes.size()),
      starts_(lanes.size()) {
  for (std::size_t d = 0; d < lanes.size(); ++d) {
    loads_[d].lanes = lanes[d];
    loads_[d].room_rows = row_caps_[d];
  }
}

RunView RunState::view(Nanoseconds now) const {
  return {.now = now, .total_rows = total_rows_, .left_rows = pool_.left(), .devices = loads_};
}

void RunState::begin(RowRange rows, Nanoseconds now) {
  pool_ = RowPool(rows);
  total_rows_ = rows.size();
  done_rows_ = 0;
  failures_.clear();
  uncounted_failures_ = 0;
  scheduler_.begin_run(view(now));
}

void RunState::refill(Nanoseconds now, std::vector<std::size_t>& assigned) {
  if (stopping()) return;
  try {
    while (const std::optional<WorkAssignment> next = scheduler_.assign(view(now))) {
      assign(*next, now);
      assigned.push_back(next->device);
    }
    if (over() && pool_.left() > 0) {
      harmonics::fail(ErrorCode::kUnavailable, "{} of {} rows are left: {}", pool_.left(),
                      total_rows_, scheduler_.stalled());
    }
  } catch (...) {
    stop(std::current_exception());
  }
}

void RunState::assign(const WorkAssignment& assignment, Nanoseconds now) {
  const std::size_t device = assignment.device;
  const bool stealing = assignment.from != WorkAssignment::kNobody;
  const bool possible = device < loads_.size() && assignment.rows > 0 &&
                        assignment.rows <= loads_[device].room_rows &&
                        (stealing ? assignment.from < loads_.size() && assignment.from != device &&
                                        !queues_[assignment.from].empty()
                                  : pool_.left() > 0);
  if (!possible) {
    harmonics::fail(ErrorCode::kInternal,
                    "the scheduler assigned {} rows to device number {}, with {} left: a mistake "
                    "in the scheduler",
                    assignment.rows, device, pool_.left());
  }
  Claim claim = stealing ? steal(assignment) : pool_.take(assignment.rows);
  claim.assigned_at = now;
  enqueue(device, claim);
}

// The end of the victim's last sub-batch, so that what it does next stays where it is.
Claim RunState::steal(const WorkAssignment& assignment) {
  std::deque<Claim>& queue = queues_[assignment.from];
  Claim& victim = queue.back();
  const std::size_t rows = std::min(assignment.rows, victim.rows.size());
  Claim claim = victim;
  claim.rows.begin = claim.rows.end - rows;
  victim.rows.end = claim.rows.begin;
  DeviceLoad& load = loads_[assignment.from];
  load.queued_rows -= rows;
  if (row_caps_[assignment.from] != DeviceLoad{}.room_rows) load.room_rows += rows;
  if (victim.rows.size() == 0) {
    queue.pop_back();
    --load.queued;
    --queued_;
  }
  load.last_queued_rows = queue.empty() ? 0 : queue.back().rows.size();
  return claim;
}

void RunState::enqueue(std::size_t device, const Claim& claim) {
  queues_[device].push_back(claim);
  DeviceLoad& load = loads_[device];
  load.queued_rows += claim.rows.size();
  load.last_queued_rows = claim.rows.size();
  ++load.queued;
  ++queued_;
  if (row_caps_[device] != DeviceLoad{}.room_rows) load.room_rows -= claim.rows.size();
}

Claim RunState::start(std::size_t device, Nanoseconds now) {
  Claim claim = queues_[device].front();
  queues_[device].pop_front();
  claim.started_at = now;
  DeviceLoad& load = loads_[device];
  load.queued_rows -= claim.rows.size();
  if (queues_[device].empty()) load.last_queued_rows = 0;
  load.running_rows += claim.rows.size();
  --load.queued;
  --queued_;
  ++load.running;
  ++running_;
  starts_[device].push_back(now);
  load.oldest_start = starts_[device].front();
  return claim;
}

void RunState::stop_running(std::size_t device, const Claim& claim) {
  DeviceLoad& load = loads_[device];
  load.running_rows -= claim.rows.size();
  --load.running;
  --running_;
  if (row_caps_[device] != DeviceLoad{}.room_rows) load.room_rows += claim.rows.size();
  starts_[device].erase(std::ranges::find(starts_[device], claim.started_at));
  load.oldest_start = starts_[device].empty() ? Nanoseconds(0) : starts_[device].front();
}

void RunState::finish(std::size_t device, const Claim& claim, Nanoseconds ended) {
  stop_running(device, claim);
  done_rows_ += claim.rows.size();
  try {
    scheduler_.finished(
        {.device = device, .rows = claim.rows.size(), .started = claim.started_at, .ended = ended});
  } catch (...) {
    stop(std::current_exception());
  }
}

void RunState::fail(std::size_t device, const Claim& claim, const std::exception_ptr& error,
                    Nanoseconds now) {
  stop_running(device, claim);
  Claim retried = claim;
  FailedWork work{.device = device,
                  .rows = claim.rows.size(),
                  .kind = failure_kind(error),
                  .attempts = 0,
                  .now = now,
                  .reason = failure_text(error)};
  if (work.kind == FailureKind::kDeviceLost) ++retried.attempts;
  work.attempts = retried.attempts;
  Recovery recovery = Recovery::kStop;
  try {
    recovery = scheduler_.failed(work);
  } catch (...) {
    stop(std::current_exception());
  }
  if (recovery == Recovery::kStop) {
    stop(located_failure(error, scheduler_.devices()[device].name, claim.rows));
  }
  if (stopping()) return;
  put_back(retried, recovery);
  drop_queue(device, true);
}

void RunState::put_back(const Claim& claim, Recovery recovery) {
  if (recovery == Recovery::kRequeue || claim.rows.size() < 2) {
    pool_.put_back(claim);
    return;
  }
  Claim first = claim;
  Claim second = claim;
  first.rows.end = second.rows.begin = claim.rows.begin + claim.rows.size() / 2;
  pool_.put_back(second);
  pool_.put_back(first);
}

void RunState::drop_queue(std::size_t device, bool back_to_pool) {
  DeviceLoad& load = loads_[device];
  for (const Claim& claim : queues_[device]) {
    if (back_to_pool) pool_.put_back(claim);
    if (row_caps_[device] != DeviceLoad{}.room_rows) load.room_rows += claim.rows.size();
  }
  queued_ -= queues_[device].size();
  load.queued = 0;
  load.queued_rows = 0;
  load.last_queued_rows = 0;
  queues_[device].clear();
}

void RunState::stop(const std::exception_ptr& why) {
  if (failures_.size() < kMaxKeptFailures) {
    failures_.push_back(why);
  } else {
    ++uncounted_failures_;
  }
  for (std::size_t d = 0; d < queues_.size(); ++d) drop_queue(d, false);
}

void RunState::end(Nanoseconds now) {
  try {
    scheduler_.end_run(view(now));
  } catch (...) {
    stop(std::current_exception());
  }
}

void RunState::rethrow() const {
  if (failures_.empty()) return;
  if (failures_.size() == 1) std::rethrow_exception(failures_.front());
  throw AggregateError(failures_, uncounted_failures_);
}

}  // namespace harmonics
