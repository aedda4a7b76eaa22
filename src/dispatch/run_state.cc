#include "run_state.h"

#include <algorithm>
#include <utility>

#include <harmonics/base/check.h>
#include <harmonics/base/error.h>

namespace harmonics::inline in_dispatch {

RunState::RunState(WorkScheduler& scheduler, std::vector<std::size_t> row_caps,
                   const std::vector<int>& lanes)
    : scheduler_(scheduler),
      repeats_(scheduler.repeats()),
      row_caps_(std::move(row_caps)),
      loads_(lanes.size()),
      queues_(lanes.size()),
      at_work_(lanes.size()) {
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
  ended_ = false;
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
  const auto takes_from = [&](std::size_t from) {
    if (from >= loads_.size() || from == device) return false;
    return assignment.repeat ? repeats_ && loads_[from].repeatable_rows > 0 &&
                                   loads_[from].repeatable_rows <= assignment.rows
                             : loads_[from].last_queued_rows > 0;
  };
  const bool possible = device < loads_.size() && assignment.rows > 0 &&
                        assignment.rows <= loads_[device].room_rows &&
                        (stealing ? takes_from(assignment.from) : pool_.left() > 0);
  if (!possible) {
    harmonics::fail(ErrorCode::kInternal,
                    "the scheduler assigned {} rows to device number {}, with {} left: a mistake "
                    "in the scheduler",
                    assignment.rows, device, pool_.left());
  }
  Claim claim = assignment.repeat ? repeat(assignment)
                : stealing        ? steal(assignment)
                                  : pool_.take(assignment.rows);
  if (!assignment.repeat) claim.number = ++numbers_;
  claim.assigned_at = now;
  enqueue(device, claim);
}

// The end of the victim's last sub-batch, so that what it does next stays where it is.
Claim RunState::steal(const WorkAssignment& assignment) {
  std::deque<Claim>& queue = queues_[assignment.from];
  HARMONICS_CHECK(!queue.empty(), "device number {} has nothing to give", assignment.from);
  Claim& victim = queue.back();
  const std::size_t rows = std::min(assignment.rows, victim.rows.size());
  Claim claim = victim;
  claim.rows.begin = claim.rows.end - rows;
  victim.rows.end = claim.rows.begin;
  DeviceLoad& load = loads_[assignment.from];
  HARMONICS_CHECK(load.queued_rows >= rows, "device number {} had {} rows queued and gives {}",
                  assignment.from, load.queued_rows, rows);
  load.queued_rows -= rows;
  if (row_caps_[assignment.from] != DeviceLoad{}.room_rows) load.room_rows += rows;
  if (victim.rows.size() == 0) {
    queue.pop_back();
    --load.queued;
    --queued_;
  }
  load.last_queued_rows = stealable_rows(assignment.from);
  return claim;
}

// A second copy of a sub-batch at work.
Claim RunState::repeat(const WorkAssignment& assignment) {
  const std::vector<Claim>& running = at_work_[assignment.from];
  const auto found = std::ranges::find_if(running, [&](const Claim& claim) {
    return !claim.committed && !twins_.contains(claim.number);
  });
  HARMONICS_CHECK(found != running.end(), "device number {} has nothing to repeat",
                  assignment.from);
  Claim copy = *found;
  copy.loaded = false;
  twins_.emplace(copy.number, Twin{});
  note_oldest(assignment.from);
  return copy;
}

void RunState::enqueue(std::size_t device, const Claim& claim) {
  queues_[device].push_back(claim);
  DeviceLoad& load = loads_[device];
  load.queued_rows += claim.rows.size();
  load.last_queued_rows = stealable_rows(device);
  ++load.queued;
  ++queued_;
  if (row_caps_[device] != DeviceLoad{}.room_rows) load.room_rows -= claim.rows.size();
}

Claim RunState::start(std::size_t device, Nanoseconds now) {
  HARMONICS_CHECK(!queues_[device].empty(), "device number {} starts what it was not given",
                  device);
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
  at_work_[device].push_back(claim);
  note_oldest(device);
  return claim;
}

void RunState::note_oldest(std::size_t device) {
  DeviceLoad& load = loads_[device];
  const std::vector<Claim>& running = at_work_[device];
  load.oldest_start = running.empty() ? Nanoseconds(0) : running.front().started_at;
  load.repeatable_rows = 0;
  if (!repeats_) return;
  for (const Claim& claim : running) {
    if (claim.committed || twins_.contains(claim.number)) continue;
    load.repeatable_rows = claim.rows.size();
    return;
  }
}

// --- sub-batches that two devices compute ---

Claim* RunState::at_work(std::size_t device, const Claim& claim) {
  const auto found = std::ranges::find(at_work_[device], claim.number, &Claim::number);
  return found == at_work_[device].end() ? nullptr : &*found;
}

void RunState::loaded(std::size_t device, const Claim& claim) {
  Claim* const known = at_work(device, claim);
  HARMONICS_CHECK(known != nullptr, "device number {} loads a sub-batch that is not its own",
                  device);
  known->loaded = true;
}

bool RunState::commit(std::size_t device, const Claim& claim) {
  const auto twin = twins_.find(claim.number);
  if (twin != twins_.end()) {
    if (twin->second.committed) return false;
    twin->second.committed = true;
  }
  Claim* const known = at_work(device, claim);
  HARMONICS_CHECK(known != nullptr, "device number {} keeps a sub-batch that is not its own",
                  device);
  known->committed = true;
  note_oldest(device);
  return true;
}

// What is repeated stays whole, where it is.
std::size_t RunState::stealable_rows(std::size_t device) const {
  const std::deque<Claim>& queue = queues_[device];
  if (queue.empty()) return 0;
  return !twins_.empty() && twins_.contains(queue.back().number) ? 0 : queue.back().rows.size();
}

// Those at work whose rows are done elsewhere and who need nothing of the run any more.
std::size_t RunState::late() const {
  if (twins_.empty()) return 0;
  std::size_t count = 0;
  for (const std::vector<Claim>& running : at_work_) {
    for (const Claim& claim : running) {
      const auto twin = twins_.find(claim.number);
      if (twin != twins_.end() && twin->second.done && claim.loaded) ++count;
    }
  }
  return count;
}

// One of two copies has ended, and with it the rows are done or not. True: they are the other's.
bool RunState::drop_twin(const Claim& claim, bool done) {
  if (twins_.empty()) return false;
  const auto found = twins_.find(claim.number);
  if (found == twins_.end()) return false;
  Twin& twin = found->second;
  HARMONICS_CHECK(twin.out > 0, "sub-batch {} ends a third time", claim.number);
  --twin.out;
  twin.done |= done;
  if (done) drop_queued(claim.number);
  const bool elsewhere = twin.done || twin.out > 0;
  if (twin.out == 0) twins_.erase(found);
  return elsewhere;
}

// The copy that no device has begun is not needed.
void RunState::drop_queued(std::uint64_t number) {
  for (std::size_t d = 0; d < queues_.size(); ++d) {
    const auto found = std::ranges::find(queues_[d], number, &Claim::number);
    if (found == queues_[d].end()) continue;
    DeviceLoad& load = loads_[d];
    load.queued_rows -= found->rows.size();
    if (row_caps_[d] != DeviceLoad{}.room_rows) load.room_rows += found->rows.size();
    queues_[d].erase(found);
    load.last_queued_rows = stealable_rows(d);
    --load.queued;
    --queued_;
    --twins_.at(number).out;
  }
}

void RunState::stop_running(std::size_t device, const Claim& claim) {
  DeviceLoad& load = loads_[device];
  const auto known = std::ranges::find(at_work_[device], claim.number, &Claim::number);
  HARMONICS_CHECK(known != at_work_[device].end(),
                  "device number {} ends a sub-batch that is not its own", device);
  HARMONICS_CHECK(load.running > 0 && running_ > 0 && load.running_rows >= claim.rows.size(),
                  "device number {} ends {} rows and computes {}", device, claim.rows.size(),
                  load.running_rows);
  load.running_rows -= claim.rows.size();
  --load.running;
  --running_;
  if (row_caps_[device] != DeviceLoad{}.room_rows) load.room_rows += claim.rows.size();
  at_work_[device].erase(known);
  note_oldest(device);
}

void RunState::finish(std::size_t device, const Claim& claim, Nanoseconds ended, bool kept) {
  stop_running(device, claim);
  if (kept) done_rows_ += claim.rows.size();
  HARMONICS_CHECK(done_rows_ <= total_rows_ || ended_, "{} of {} rows are done", done_rows_,
                  total_rows_);
  drop_twin(claim, kept);
  if (ended_) return;  // it was late, and the scheduler may serve another dispatcher by now
  try {
    scheduler_.finished(
        {.device = device, .rows = claim.rows.size(), .started = claim.started_at, .ended = ended});
  } catch (...) {
    stop(std::current_exception());
  }
}

void RunState::fail(std::size_t device, const Claim& claim, const std::exception_ptr& error,
                    Nanoseconds now) {
  const auto twin = twins_.find(claim.number);
  const bool done_before = twin != twins_.end() && twin->second.done;
  if (twin != twins_.end() && at_work(device, claim)->committed) {
    twin->second.committed = false;  // nothing was kept: the other copy may be
  }
  stop_running(device, claim);
  Claim retried = claim;
  FailedWork work{.device = device,
                  .rows = claim.rows.size(),
                  .kind = failure_kind(error),
                  .attempts = 0,
                  .now = now,
                  .reason = failure_text(error)};
  retried.loaded = retried.committed = false;
  // An error of the work itself is that of both copies.
  const bool by_work = work.kind == FailureKind::kWork;
  if ((drop_twin(claim, by_work) && !by_work) || done_before) {
    fail_late(device, work);
    return;
  }
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

// The rows are another device's, who is lost or full all the same.
void RunState::fail_late(std::size_t device, const FailedWork& work) {
  if (ended_ || stopping() || work.kind == FailureKind::kWork) return;
  try {
    (void)scheduler_.failed(work);
  } catch (...) {
    stop(std::current_exception());
    return;
  }
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
    const bool needed = !drop_twin(claim, false);
    if (back_to_pool && needed) pool_.put_back(claim);
    if (row_caps_[device] != DeviceLoad{}.room_rows) load.room_rows += claim.rows.size();
  }
  HARMONICS_CHECK(queued_ >= queues_[device].size(), "{} sub-batches are queued, {} of them at one",
                  queued_, queues_[device].size());
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
  ended_ = true;
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

}  // namespace harmonics::inline in_dispatch
