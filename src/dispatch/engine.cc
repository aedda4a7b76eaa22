#include <harmonics/dispatch/engine.h>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

#include "emulated_engine.h"
#include "lane_layout.h"
#include "run_state.h"

namespace harmonics::inline in_dispatch {
namespace {

// One thread of a device.
struct Lane {
  WorkDevice device;
  std::size_t device_index = 0;
  std::size_t number = 0;
  TraceLane* trace = nullptr;
  std::condition_variable wake;
  bool asleep = false;
  std::thread thread;
};

// What became of a sub-batch.
struct Outcome {
  Nanoseconds ended{0};
  std::exception_ptr error;
  /// Its result counts.
  bool kept = true;
};

std::exception_ptr make_error(ErrorCode code, const std::string& text) {
  return std::make_exception_ptr(Error(code, text));
}

}  // namespace

struct DispatchEngine::Core {
  class Gate;

  Core(WorkScheduler& scheduler, DispatchOptions options, InitThread init_thread);

  void spawn();
  void join();
  void thread_main(Lane& lane);
  void work(Lane& lane, std::unique_lock<std::mutex>& lock);
  void compute_one(Lane& lane, std::unique_lock<std::mutex>& lock);
  [[nodiscard]] Outcome compute(Lane& lane, const Claim& claim);
  [[nodiscard]] bool compute_unsafely(Lane& lane, const Claim& claim, ChunkPhases& phases);
  void pass_time(Lane& lane, const Claim& claim, Nanoseconds submitted, ChunkPhases& phases);
  void report(std::unique_lock<std::mutex>& lock);
  void go_on(const Lane* self);
  void run_in_caller(std::unique_lock<std::mutex>& lock);
  void await_drained(std::unique_lock<std::mutex>& lock);
  void sleep(Lane& lane, std::unique_lock<std::mutex>& lock);
  void rouse(Lane& lane);
  void rouse_device(std::size_t device);

  WorkScheduler& scheduler;
  const bool repeats;
  const DispatchOptions options;
  const InitThread init_thread;
  const std::shared_ptr<Timeline> timeline;
  std::vector<EmulatedEngine> emulated;
  std::vector<std::unique_ptr<Lane>> lanes;
  /// First lane of each device, and one past the last.
  std::vector<std::size_t> first_lane;

  std::mutex mutex;
  std::condition_variable changed;  // for the thread that called start, wait or the constructor
  RunState state;
  RunOptions run;
  DispatchJob* job = nullptr;
  Nanoseconds next_report{0};
  bool reporting = false;
  bool active = false;
  bool shutdown = false;
  std::size_t ready = 0;
  std::exception_ptr init_error;
  std::vector<std::size_t> assigned;
};

DispatchEngine::Core::Core(WorkScheduler& wanted, DispatchOptions given, InitThread init)
    : scheduler(wanted),
      repeats(wanted.repeats()),
      options(std::move(given)),
      init_thread(std::move(init)),
      timeline(options.timeline ? options.timeline : std::make_shared<RealTimeline>()),
      emulated(wanted.devices().size()),
      state(wanted, row_caps(wanted, options), lanes_of(wanted.devices(), options)) {
  for (const WorkDevice& device : lane_devices(wanted.devices(), options)) {
    auto lane = std::make_unique<Lane>();
    lane->device = device;
    lane->number = lanes.size();
    if (device.lane == 0) first_lane.push_back(lane->number);
    lane->device_index = first_lane.size() - 1;
    if (options.trace) lane->trace = &options.trace->lane(device.name, device.lane);
    lanes.push_back(std::move(lane));
  }
  first_lane.push_back(lanes.size());
}

// --- threads ---

void DispatchEngine::Core::spawn() {
  for (const auto& lane : lanes) {
    timeline->enter();
    lane->thread = std::thread([this, one = lane.get()] { thread_main(*one); });
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return ready == lanes.size(); });
}

void DispatchEngine::Core::thread_main(Lane& lane) {
  std::exception_ptr error;
  try {
    if (init_thread) init_thread(lane.device);
  } catch (...) {
    error = std::current_exception();
  }
  std::unique_lock lock(mutex);
  if (error && !init_error) init_error = error;
  ++ready;
  changed.notify_all();
  work(lane, lock);
  timeline->leave();
}

void DispatchEngine::Core::join() {
  {
    const std::lock_guard lock(mutex);
    if (active) state.stop(make_error(ErrorCode::kCancelled, "the dispatcher was destroyed"));
    shutdown = true;
    for (const auto& lane : lanes) {
      if (lane->asleep) rouse(*lane);
    }
  }
  for (const auto& lane : lanes) {
    if (lane->thread.joinable()) lane->thread.join();
  }
}

void DispatchEngine::Core::work(Lane& lane, std::unique_lock<std::mutex>& lock) {
  for (;;) {
    while (!shutdown && !state.has_queued(lane.device_index)) sleep(lane, lock);
    if (!state.has_queued(lane.device_index)) return;
    compute_one(lane, lock);
  }
}

void DispatchEngine::Core::sleep(Lane& lane, std::unique_lock<std::mutex>& lock) {
  lane.asleep = true;
  timeline->block();
  lane.wake.wait(lock, [&] { return !lane.asleep; });
}

void DispatchEngine::Core::rouse(Lane& lane) {
  lane.asleep = false;
  timeline->unblock();
  lane.wake.notify_one();
}

void DispatchEngine::Core::rouse_device(std::size_t device) {
  for (std::size_t w = first_lane[device]; w < first_lane[device + 1]; ++w) {
    if (!lanes[w]->asleep) continue;
    rouse(*lanes[w]);
    return;
  }
}

// --- a sub-batch ---

void DispatchEngine::Core::compute_one(Lane& lane, std::unique_lock<std::mutex>& lock) {
  const Claim claim = state.start(lane.device_index, timeline->now());
  lock.unlock();
  const Outcome outcome = compute(lane, claim);
  lock.lock();
  if (outcome.error) {
    state.fail(lane.device_index, claim, outcome.error, outcome.ended);
  } else {
    state.finish(lane.device_index, claim, outcome.ended, outcome.kept);
  }
  if (run.progress && active) report(lock);
  go_on(&lane);
}

Outcome DispatchEngine::Core::compute(Lane& lane, const Claim& claim) {
  Outcome outcome;
  ChunkPhases phases;
  outcome.kept = !repeats;  // one that fails may do so when its run is over
  try {
    outcome.kept = compute_unsafely(lane, claim, phases);
  } catch (...) {
    outcome.error = std::current_exception();
    if (lane.device.emulated()) {
      timeline->pause_until(claim.started_at + lane.device.latency, lane.number);
    }
  }
  outcome.ended = timeline->now();
  if (lane.trace != nullptr && outcome.kept) {
    lane.trace->add({.begin_row = claim.rows.begin,
                     .rows = claim.rows.size(),
                     .started = claim.started_at,
                     .prepared = std::max(phases.prepared, claim.started_at),
                     .computed = std::max(phases.computed, claim.started_at),
                     .ended = outcome.ended,
                     .failed = outcome.error != nullptr});
  }
  return outcome;
}

// What a lane passes where sub-batches may be repeated. An emulated device's time passes before
// its result is kept, so that the first in time is the first.
class DispatchEngine::Core::Gate final : public ChunkGate {
 public:
  Gate(Core& core, Lane& lane, const Claim& claim, ChunkPhases& phases)
      : core_(core), lane_(lane), claim_(claim), phases_(phases) {}

  void loaded() override {
    const std::lock_guard lock(core_.mutex);
    core_.state.loaded(lane_.device_index, claim_);
    core_.go_on(nullptr);  // what is at work can be repeated, or is done elsewhere already
  }
  [[nodiscard]] bool commit() override {
    core_.pass_time(lane_, claim_, submitted, phases_);
    const std::lock_guard lock(core_.mutex);
    kept = core_.state.commit(lane_.device_index, claim_);
    return kept;
  }

  Nanoseconds submitted{0};
  bool kept = false;

 private:
  Core& core_;
  Lane& lane_;
  const Claim& claim_;
  ChunkPhases& phases_;
};

void DispatchEngine::Core::pass_time(Lane& lane, const Claim& claim, Nanoseconds submitted,
                                     ChunkPhases& phases) {
  if (!lane.device.emulated()) return;
  const std::size_t device = lane.device_index;
  const bool overlaps = first_lane[device + 1] - first_lane[device] > 1;
  const Nanoseconds end =
      emulated[device].book(lane.device, claim.rows.size(), submitted, overlaps);
  timeline->pause_until(end, lane.number);
  phases.computed = end;
}

// Whether the result was kept.
bool DispatchEngine::Core::compute_unsafely(Lane& lane, const Claim& claim, ChunkPhases& phases) {
  const std::size_t device = lane.device_index;
  struct Leave {
    WorkScheduler& scheduler;
    std::size_t device, rows;
    ~Leave() { scheduler.leave(device, rows); }
  };
  const bool waited = scheduler.enter(device, claim.rows.size());
  const Leave leave{scheduler, device, claim.rows.size()};
  const Nanoseconds submitted =
      lane.device.emulated() && waited ? timeline->now() : claim.assigned_at;
  ChunkPhases* const wanted = lane.trace != nullptr ? &phases : nullptr;
  if (repeats) {
    Gate gate(*this, lane, claim, phases);
    gate.submitted = submitted;
    job->run(lane.device, lane.number, claim.rows, wanted, &gate);
    return gate.kept;
  }
  job->run(lane.device, lane.number, claim.rows, wanted, nullptr);
  pass_time(lane, claim, submitted, phases);
  return true;
}

// Calls the progress function without the lock; the run cannot end meanwhile.
void DispatchEngine::Core::report(std::unique_lock<std::mutex>& lock) {
  const Nanoseconds now = timeline->now();
  const DispatchProgress progress{state.done_rows(), state.total_rows()};
  const bool last = progress.done_rows == progress.total_rows;
  if (reporting || state.stopping() || (now < next_report && !last)) return;
  next_report = now + run.progress_interval;
  reporting = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    if (!run.progress(progress)) {
      error = make_error(ErrorCode::kCancelled,
                         format("the progress function ended the run after {} of {} rows",
                                progress.done_rows, progress.total_rows));
    }
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  reporting = false;
  if (error && !state.stopping()) state.stop(error);
}

// After any change: cancel, assign, wake whoever got something, and see whether the run is over.
// `self` is the lane that calls, if it is one.
void DispatchEngine::Core::go_on(const Lane* self) {
  if (!active) return;
  if (run.stop.stop_requested() && !state.stopping() && state.done_rows() < state.total_rows()) {
    state.stop(make_error(ErrorCode::kCancelled, format("the run was stopped after {} of {} rows",
                                                        state.done_rows(), state.total_rows())));
  }
  const Nanoseconds now = timeline->now();
  assigned.clear();
  state.refill(now, assigned);
  for (const std::size_t device : assigned) {
    if (self != nullptr && self->device_index == device) {
      self = nullptr;  // looks into its queue next
    } else {
      rouse_device(device);
    }
  }
  if (!state.over() || reporting) return;
  state.end(now);
  active = false;
  changed.notify_all();
}

// Sub-batches of all devices in turn, as a single thread.
void DispatchEngine::Core::run_in_caller(std::unique_lock<std::mutex>& lock) {
  timeline->enter();
  while (active) {
    for (std::size_t d = 0; d + 1 < first_lane.size(); ++d) {
      if (active && state.has_queued(d)) compute_one(*lanes[first_lane[d]], lock);
    }
  }
  timeline->leave();
}

void DispatchEngine::Core::await_drained(std::unique_lock<std::mutex>& lock) {
  const auto drained = [&] { return !active; };
  if (run.timeout >= std::chrono::hours(24 * 365)) {
    changed.wait(lock, drained);
    return;
  }
  if (changed.wait_for(lock, run.timeout, drained)) return;
  std::string busy;
  for (std::size_t d = 0; d < state.loads().size(); ++d) {
    const DeviceLoad& load = state.loads()[d];
    if (load.running == 0) continue;
    add_item(busy, format("'{}' ({} rows)", scheduler.devices()[d].name, load.running_rows));
  }
  const std::string text = format(
      "the run took longer than its timeout of {:.1f} s: {} of {} rows done, still at work: {}",
      in_seconds(run.timeout), state.done_rows(), state.total_rows(), busy.empty() ? "none" : busy);
  state.stop(make_error(ErrorCode::kDeadlineExceeded, text));
  go_on(nullptr);
  if (changed.wait_for(lock, kDrainGrace, drained)) return;
  fail(ErrorCode::kDeadlineExceeded, "{}; it has not come back since", text);
}

// --- the public face ---

DispatchEngine::DispatchEngine(WorkScheduler& scheduler, DispatchOptions options,
                               InitThread init_thread)
    : core_(std::make_unique<Core>(scheduler, std::move(options), std::move(init_thread))) {
  if (!core_->options.async) {
    for (const std::size_t first : core_->first_lane) {
      if (first < core_->lanes.size() && core_->init_thread) {
        core_->init_thread(core_->lanes[first]->device);
      }
    }
    return;
  }
  core_->spawn();
  if (!core_->init_error) return;
  core_->join();
  std::rethrow_exception(core_->init_error);
}

DispatchEngine::~DispatchEngine() { core_->join(); }

void DispatchEngine::start(DispatchJob& job, RowRange rows, RunOptions options) {
  std::unique_lock lock(core_->mutex);
  if (core_->active) {
    fail(ErrorCode::kFailedPrecondition,
         "a run of this dispatcher is still under way: wait for it first");
  }
  core_->run = std::move(options);
  core_->job = &job;
  core_->next_report = core_->timeline->now();
  core_->state.begin(rows, core_->timeline->now());
  core_->active = true;
  core_->go_on(nullptr);
  if (!core_->options.async) core_->run_in_caller(lock);
}

void DispatchEngine::wait() {
  std::unique_lock lock(core_->mutex);
  core_->await_drained(lock);
  core_->state.rethrow();
}

void DispatchEngine::cancel() {
  std::unique_lock lock(core_->mutex);
  if (!core_->active) return;
  if (!core_->state.stopping()) {
    core_->state.stop(make_error(ErrorCode::kCancelled, "the run was given up"));
  }
  core_->go_on(nullptr);
  core_->changed.wait(lock, [&] { return !core_->active; });
}

std::size_t DispatchEngine::lane_count() const { return core_->lanes.size(); }

const Timeline& DispatchEngine::timeline() const { return *core_->timeline; }

}  // namespace harmonics::inline in_dispatch
