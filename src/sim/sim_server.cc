#include "sim_server.h"

#include <algorithm>

#include <harmonics/base/error.h>

namespace harmonics::inline in_sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

SimServer::SimServer(const Setup& setup, ServerSide side)
    : setup_(setup), side_(std::move(side)), clock_(setup.world) {
  store_ = open_memory_store(setup_.disk);
  store_->lead(seconds(1));
  if (setup_.plant == Plant::kImpatientServer) setup_.options.drift = -setup_.options.lease * 3 / 4;
  reactor_ = std::make_unique<ServerReactor>(load_state(*store_), setup_.policy, setup_.options,
                                             now(), out_);
  wake(milliseconds(1));
}

void SimServer::deliver(ServerEvent event) {
  inbox_.push_back(std::move(event));
  if (!busy_) wake(milliseconds(1));
}

void SimServer::wake(Nanoseconds delay) {
  const std::uint64_t tick = ++ticks_;
  setup_.world.after(delay, [this, tick, alive = alive_] {
    if (*alive && tick == ticks_ && !busy_) run_batch();
  });
}

void SimServer::run_batch() {
  busy_ = true;
  std::vector<ServerEvent> events;
  events.swap(inbox_);
  for (const ServerEvent& event : events) reactor_->handle(event, now(), out_);
  reactor_->tick(now(), out_);
  if (setup_.plant == Plant::kActBeforeStoring) act();
  const bool stall = setup_.world.chance(0.01);
  const Nanoseconds disk =
      setup_.world.between(milliseconds(1), stall ? seconds(3) : milliseconds(20));
  setup_.world.after(disk, [this, alive = alive_] {
    if (*alive) commit();
  });
}

void SimServer::commit() {
  const bool faulty = setup_.world.chance(setup_.store_faults);
  // A failed commit may have reached the disk, or not.
  if (faulty && setup_.world.chance(0.5)) return die();
  try {
    if (!(setup_.plant == Plant::kUncheckedLead && out_.facts.empty())) {
      if (store_ == nullptr) fail(ErrorCode::kAborted, "deposed");
      store_->append(out_.facts);
    }
  } catch (const Error&) {
    return die();
  }
  setup_.witness.stored(out_.facts);
  if (faulty) return die();
  if (setup_.plant != Plant::kActBeforeStoring) act();
  out_.clear();
  busy_ = false;
  if (store_ != nullptr && setup_.world.chance(0.02)) store_->compact(reactor_->state());
  schedule_tick();
}

void SimServer::schedule_tick() {
  if (!inbox_.empty()) return wake(milliseconds(1));
  const Time deadline = reactor_->deadline();
  if (deadline == kNever) return;
  wake(std::max<Nanoseconds>(clock_.until(deadline, setup_.world.now()), milliseconds(1)));
}

void SimServer::act() {
  for (const ServerEffect& effect : out_.effects) carry_out(effect);
  out_.effects.clear();
}

void SimServer::carry_out(const ServerEffect& effect) {
  std::visit([this](const auto& one) { obey(one); }, effect);
}

void SimServer::obey(const Answer& answer) { side_.answer(answer); }

void SimServer::obey(const OpenSession& open) {
  const auto old = connections_.find({open.worker, current_[open.worker]});
  if (old != connections_.end()) {
    side_.close(old->second);
    connections_.erase(old);
  }
  current_[open.worker] = open.epoch;
  connections_[{open.worker, open.epoch}] = open.connection;
}

void SimServer::obey(const RefuseSession& refuse) {
  side_.send(refuse.connection, Epoch{}, RefusedMessage{refuse.reason});
  side_.close(refuse.connection);
}

void SimServer::obey(const SendToWorker& send) {
  const auto found = connections_.find({send.worker, send.epoch});
  if (found == connections_.end()) return;
  ServerMessage message = send.message;
  auto* welcome = std::get_if<WelcomeMessage>(&message);
  if (welcome != nullptr && setup_.plant == Plant::kLongHold) welcome->hold *= 4;
  side_.send(found->second, send.epoch, message);
}

void SimServer::obey(const CloseSession& close) {
  const auto found = connections_.find({close.worker, close.epoch});
  if (found == connections_.end()) return;
  side_.close(found->second);
  connections_.erase(found);
}

void SimServer::obey(const Note&) {}

// Some of the workers in another order, after a while; now and then it wants to measure first.
void SimServer::obey(const AskPlan& ask) {
  PlanMade made;
  made.task = ask.task;
  made.plan = format("{{\"period_s\": {}}}", 1 + setup_.world.below(10));
  made.measures = setup_.world.chance(0.2);
  for (const PlanPlace& place : ask.places) {
    const bool first = setup_.world.chance(0.5);
    made.stages.insert(first ? made.stages.begin() : made.stages.end(), place.worker);
  }
  const std::uint32_t wanted = ask.submission->spec.pipeline->stages;
  if (wanted != 0) made.stages.resize(std::min<std::size_t>(wanted, made.stages.size()));
  setup_.world.after(setup_.world.between(milliseconds(1), seconds(2)),
                     [this, made, alive = alive_] {
                       if (*alive) deliver(made);
                     });
}

void SimServer::kill() {
  if (!alive()) return;
  if (busy_ && store_ != nullptr && setup_.world.chance(0.5)) {
    store_->append(out_.facts);
    setup_.witness.stored(out_.facts);
  }
  die();
}

void SimServer::depose() { store_.reset(); }

void SimServer::die() {
  *alive_ = false;
  store_.reset();
  setup_.died();
}

}  // namespace harmonics::inline in_sim
