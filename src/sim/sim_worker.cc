#include "sim_worker.h"

#include <harmonics/base/error.h>

namespace harmonics::inline in_sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

SimWorker::SimWorker(const Setup& setup) : setup_(setup), clock_(setup.world) {}

void SimWorker::start() {
  if (alive()) return;
  ++life_;
  std::vector<RecoveredAttempt> recovered;
  for (auto& [id, record] : records_) {
    const bool running = processes_.contains(id);
    if (!running && !record.ended) record.ended = {EndKind::kLost, 0, 0, "its supervisor is gone"};
    recovered.push_back({{id, true, record.ended}, record.on_disconnect});
  }
  WorkerSpec spec = setup_.spec;
  spec.name = name_;
  spec.identity = identity();
  reactor_ = std::make_unique<WorkerReactor>(spec, std::move(recovered), lease_);
  reconnect(milliseconds(10));
  schedule_tick();
}

std::string SimWorker::identity() const {
  return format("machine {} disk {}@{}", setup_.machine, wipes_, boots_);
}

void SimWorker::kill() {
  if (!alive()) return;
  reactor_.reset();
  ++life_;
  online_ = false;
  setup_.hang_up();
}

void SimWorker::reboot() {
  kill();
  ++boots_;
  for (const auto& [id, process] : processes_) {
    setup_.witness.ended(setup_.machine, id, {EndKind::kLost, 0, 0, ""});
  }
  processes_.clear();
}

void SimWorker::wipe() {
  reboot();
  records_.clear();
  lease_ = {};
  name_.clear();
  ++wipes_;
}

void SimWorker::reconnect(Nanoseconds delay) {
  setup_.world.after(delay, [this, life = life_] {
    if (life == life_ && !online_) setup_.connect(*this);
  });
}

void SimWorker::connected() {
  online_ = true;
  feed(Connected{});
}

void SimWorker::disconnected() {
  if (!alive()) return;
  online_ = false;
  feed(Disconnected{});
  reconnect(setup_.world.between(milliseconds(100), seconds(2)));
}

void SimWorker::receive(Epoch epoch, const ServerMessage& message) {
  if (!alive()) return;
  if (const auto* welcome = std::get_if<WelcomeMessage>(&message)) name_ = welcome->name;
  feed(ServerSays{epoch, message});
}

void SimWorker::feed(const WorkerEvent& event) {
  if (!alive()) return;
  std::vector<WorkerEffect> effects;
  reactor_->handle(event, now(), effects);
  for (const WorkerEffect& effect : effects) carry_out(effect);
  if (alive()) schedule_tick();
}

void SimWorker::schedule_tick() {
  const Time deadline = reactor_->deadline();
  if (deadline == kNever) return;
  const std::uint64_t tick = ++ticks_;
  const Nanoseconds delay = clock_.until(deadline, setup_.world.now());
  setup_.world.after(delay, [this, tick, life = life_] {
    if (life == life_ && tick == ticks_) feed(WorkerTick{});
  });
}

void SimWorker::carry_out(const WorkerEffect& effect) {
  std::visit([this](const auto& one) { obey(one); }, effect);
}

void SimWorker::obey(const SendToServer& send) {
  if (online_) setup_.send(send.message);
}

void SimWorker::obey(const ExtendLease& lease) { lease_ = lease; }

void SimWorker::obey(const DropRecord& drop) { records_.erase(drop.id); }

void SimWorker::obey(const Reconnect&) {
  online_ = false;
  setup_.hang_up();
  setup_.world.after(milliseconds(1), [this, life = life_] {
    if (life == life_) disconnected();
  });
}

// Its minder starts it again after a while.
void SimWorker::obey(const GiveUp&) {
  setup_.world.after(milliseconds(1), [this, life = life_] {
    if (life != life_) return;
    kill();
    setup_.world.after(seconds(5), [this] { start(); });
  });
}

// The record is on disk before the process exists; a kill in between leaves a record alone.
void SimWorker::obey(const Launch& launch) {
  records_[launch.start.id] = {launch.start.spec->on_disconnect, std::nullopt};
  const Nanoseconds delay = setup_.world.between(milliseconds(1), milliseconds(50));
  setup_.world.after(delay, [this, start = launch.start, life = life_] {
    const auto record = records_.find(start.id);
    if (life != life_ || record == records_.end() || record->second.ended) return;
    if (setup_.world.now() < sick_until_ || setup_.world.chance(0.01)) {
      return end(start.id, {EndKind::kUnable, 0, 0, "no space left on device"});
    }
    if (setup_.world.chance(0.03)) {
      return end(start.id, {EndKind::kRefused, 0, 0, "no such folder"});
    }
    spawn(start);
  });
}

void SimWorker::spawn(const StartMessage& start) {
  const AttemptId id = start.id;
  setup_.witness.launched(setup_.machine, id, start.devices, start.spec->gpu_share);
  processes_[id] = {++spawned_, start.devices, start.spec->on_disconnect};
  Nanoseconds runs =
      setup_.world.between(milliseconds(10), seconds(setup_.world.chance(0.2) ? 60 : 8));
  EndResult result;
  if (setup_.world.chance(setup_.failures)) result = {EndKind::kFailed, 1, 0, ""};
  if (start.spec->timeout_s != 0 && runs > seconds(start.spec->timeout_s)) {
    runs = seconds(start.spec->timeout_s);
    result = {EndKind::kTimedOut, 0, 0, ""};
  }
  setup_.world.after(runs, [this, id, result, number = spawned_] {
    const auto process = processes_.find(id);
    if (process != processes_.end() && process->second.number == number) end(id, result);
  });
  watch_lease(id);
  feed(ProcessLaunched{id});
}

// The supervisor ends its task when the lease (or the hold) does, whether or not there is a worker.
void SimWorker::watch_lease(AttemptId id) {
  const Process& process = processes_.at(id);
  if (process.on_disconnect == OnDisconnect::kForever || setup_.plant == Plant::kDeafSupervisor)
    return;
  const auto end_of = [this](const Process& one) {
    return one.on_disconnect == OnDisconnect::kStop ? lease_.until : lease_.hold_until;
  };
  const Nanoseconds delay = clock_.until(end_of(process), setup_.world.now());
  setup_.world.after(delay, [this, id, end_of, number = process.number] {
    const auto found = processes_.find(id);
    if (found == processes_.end() || found->second.number != number) return;
    if (end_of(found->second) <= now()) return end(id, {EndKind::kLeaseLost, 0, 9, ""});
    watch_lease(id);
  });
}

void SimWorker::obey(const Stop& stop) {
  if (setup_.plant == Plant::kDeafSupervisor && stop.as == EndKind::kLeaseLost) return;
  const EndResult result{stop.as, 0, 15, ""};
  const auto process = processes_.find(stop.id);
  if (process == processes_.end()) {
    // Not started yet: it never will be.
    const auto record = records_.find(stop.id);
    if (record != records_.end() && !record->second.ended) end(stop.id, result);
    return;
  }
  if (stop.as == EndKind::kLeaseLost) {
    // Stopping begins a grace before the end; a fresh worker has not been told how long that is.
    const bool leased = now() + seconds(5) < lease_.until;
    setup_.witness.cut_off(stop.id, process->second.on_disconnect, leased);
  }
  const Nanoseconds takes = setup_.world.between(Nanoseconds{}, stop.grace * 9 / 10);
  setup_.world.after(takes, [this, id = stop.id, result, number = process->second.number] {
    const auto found = processes_.find(id);
    if (found != processes_.end() && found->second.number == number) end(id, result);
  });
}

void SimWorker::end(AttemptId id, const EndResult& result) {
  if (processes_.erase(id) > 0) setup_.witness.ended(setup_.machine, id, result);
  records_[id].ended = result;
  if (setup_.plant == Plant::kEarlyDrop) records_.erase(id);
  setup_.world.after(milliseconds(1), [this, id, result, life = life_] {
    if (life == life_) feed(ProcessEnded{id, result});
  });
}

}  // namespace harmonics::inline in_sim
