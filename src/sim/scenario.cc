#include "scenario.h"

#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <vector>

#include <harmonics/base/check.h>
#include <harmonics/base/listed.h>
#include <harmonics/cluster/fact_codec.h>
#include <harmonics/cluster/reactor.h>

#include "scenario_line.h"

namespace harmonics::inline in_sim {
namespace {

const Caller kPlayersAdmin{"admin", true};

class Player {
 public:
  Player() { restart(); }

  /// Feeds one line, returns what came out.
  std::string play(std::string_view text, std::size_t number);
  void check_replay() const;

 private:
  struct Presence {
    WorkerId worker;
    Epoch epoch;
    Epoch before;  ///< Of the session before this one.
    bool connected = false;
    bool silent = false;
  };
  using Command = void (Player::*)(ScenarioLine&);
  static const std::map<std::string_view, Command>& commands();

  void worker(ScenarioLine& line);
  void gone(ScenarioLine& line);
  void silent(ScenarioLine& line) { workers_here_.at(line.word()).silent = true; }
  void launched(ScenarioLine& line);
  void ended(ScenarioLine& line);
  void stale(ScenarioLine& line);
  void submit(ScenarioLine& line);
  void cancel(ScenarioLine& line);
  void priority(ScenarioLine& line);
  void drain(ScenarioLine& line);
  void undrain(ScenarioLine& line);
  void forget(ScenarioLine& line);
  void quota(ScenarioLine& line);
  void wait(ScenarioLine& line);
  void why(ScenarioLine& line);
  void show(ScenarioLine& line);
  void plan(ScenarioLine& line);
  void policy(ScenarioLine& line);
  void options(ScenarioLine& line);
  void restart(ScenarioLine&) { restart(); }

  void restart();
  void store();
  void feed(const ServerEvent& event) { reactor_->handle(event, now_, out_); }
  /// Ends the batch: ticks, stores the facts, writes down what happened.
  void settle();
  void print(const ServerEffect& effect);
  // One for each effect: a new one does not compile until it has its own.
  void tell(const Answer& answer);
  void tell(const OpenSession& open);
  void tell(const RefuseSession& refuse);
  void tell(const SendToWorker& send);
  void tell(const CloseSession& close);
  void tell(const AskPlan& ask);
  void tell(const Note& note);
  void print(const Fact& fact);
  void print(WorkerId worker, const ServerMessage& message);
  std::string name_of(WorkerId worker) const;
  void flush_ends();
  void say(std::string text) { said_ += "< " + std::move(text) + "\n"; }

  std::unique_ptr<WorkloadPolicy> policy_ = make_policy("balanced");
  ServerOptions options_;
  std::unique_ptr<ServerReactor> reactor_;
  Outbox out_;
  Time now_ = std::chrono::seconds(1'000'000);
  std::vector<Bytes> journal_;
  std::map<std::string, Presence> workers_here_;
  std::uint64_t connections_ = 0;
  std::string joining_;  ///< The worker whose hello is being handled.
  std::string said_;
  std::string ending_;  ///< How the tasks from first_ to last_ ended, if not yet said.
  TaskId first_;
  TaskId last_;
};

std::string reason_of(const EndResult& result) {
  return result.message.empty() ? "" : ": " + result.message;
}

void replay(const std::vector<Bytes>& journal, ClusterState& state) {
  for (const Bytes& batch : journal) {
    read_facts(batch, "scenario", [&](Fact&& fact) { state.apply(fact); });
  }
}

const std::map<std::string_view, Player::Command>& Player::commands() {
  static const std::map<std::string_view, Command> table{
      {"worker", &Player::worker},     {"gone", &Player::gone},         {"silent", &Player::silent},
      {"launched", &Player::launched}, {"ended", &Player::ended},       {"stale", &Player::stale},
      {"submit", &Player::submit},     {"cancel", &Player::cancel},     {"drain", &Player::drain},
      {"undrain", &Player::undrain},   {"forget", &Player::forget},     {"quota", &Player::quota},
      {"wait", &Player::wait},         {"why", &Player::why},           {"show", &Player::show},
      {"plan", &Player::plan},         {"restart", &Player::restart},   {"policy", &Player::policy},
      {"options", &Player::options},   {"priority", &Player::priority},
  };
  return table;
}

std::string Player::play(std::string_view text, std::size_t number) {
  ScenarioLine line(text, number);
  const std::string verb = line.word();
  const auto command = commands().find(verb);
  if (command == commands().end()) line.broken(format("unknown word '{}'", verb));
  said_.clear();
  (this->*command->second)(line);
  settle();
  return said_;
}

void Player::store() {
  FactWriter writer;
  for (const Fact& fact : out_.facts) writer.add(fact);
  if (!writer.empty()) journal_.push_back(writer.take());
}

void Player::settle() {
  reactor_->tick(now_, out_);
  store();
  for (const Fact& fact : out_.facts) print(fact);
  flush_ends();
  for (const ServerEffect& effect : out_.effects) print(effect);
  out_.clear();
}

void Player::restart() {
  store();
  out_.clear();
  ClusterState state;
  replay(journal_, state);
  for (auto& [name, presence] : workers_here_) presence.connected = false;
  reactor_ = std::make_unique<ServerReactor>(std::move(state), *policy_, options_, now_, out_);
}

void Player::worker(ScenarioLine& line) {
  joining_ = line.word();
  HelloMessage hello = line.hello();
  if (joining_ != "unnamed") hello.spec.name = joining_;
  if (hello.spec.identity.empty()) hello.spec.identity = "state of " + joining_;
  hello.spec.address = "localhost:0";
  feed(WorkerHello{RequestId{++connections_}, hello});
}

void Player::gone(ScenarioLine& line) {
  Presence& presence = workers_here_.at(line.word());
  presence.connected = false;
  feed(WorkerGone{presence.worker, presence.epoch});
}

void Player::launched(ScenarioLine& line) {
  const AttemptId id = line.attempt();
  const Presence& presence = workers_here_.at(line.word());
  feed(WorkerSays{presence.worker, presence.epoch, LaunchedMessage{id}});
}

void Player::ended(ScenarioLine& line) {
  const AttemptId id = line.attempt();
  const Presence& presence = workers_here_.at(line.word());
  feed(WorkerSays{presence.worker, presence.epoch, EndedMessage{id, line.result()}});
}

/// "stale 1.1 w1 succeeded": an end that is reported in the session before the present one.
void Player::stale(ScenarioLine& line) {
  const AttemptId id = line.attempt();
  const Presence& presence = workers_here_.at(line.word());
  feed(WorkerSays{presence.worker, presence.before, EndedMessage{id, line.result()}});
}

void Player::submit(ScenarioLine& line) {
  const Caller user{line.word(), false};
  feed(SubmitRequest{RequestId{}, user, line.task()});
}

void Player::cancel(ScenarioLine& line) {
  const std::string user = line.word();
  feed(CancelRequest{RequestId{}, {user, user == "admin"}, TaskId{line.number()}});
}

void Player::priority(ScenarioLine& line) {
  const std::string user = line.word();
  const TaskId task{line.number()};
  const auto to = static_cast<std::int32_t>(line.number());
  feed(PriorityRequest{RequestId{}, {user, user == "admin"}, task, to});
}

void Player::drain(ScenarioLine& line) {
  feed(DrainRequest{RequestId{}, kPlayersAdmin, line.word(), true});
}

void Player::undrain(ScenarioLine& line) {
  feed(DrainRequest{RequestId{}, kPlayersAdmin, line.word(), false});
}

void Player::forget(ScenarioLine& line) {
  feed(ForgetRequest{RequestId{}, kPlayersAdmin, line.word()});
}

void Player::quota(ScenarioLine& line) {
  const std::string user = line.word();
  feed(QuotaRequest{RequestId{}, kPlayersAdmin, user, line.quota()});
}

/// Time passes in steps of a heartbeat; workers that are connected and not silent beat.
void Player::wait(ScenarioLine& line) {
  const Time end = now_ + line.duration();
  while (now_ < end) {
    now_ = std::min(end, now_ + options_.heartbeat);
    for (const auto& [name, presence] : workers_here_) {
      if (!presence.connected || presence.silent) continue;
      feed(WorkerSays{presence.worker, presence.epoch, HeartbeatMessage{1}});
    }
    settle();
  }
}

void Player::why(ScenarioLine& line) {
  const WhyPending why = reactor_->why(TaskId{line.number()}, now_);
  say(format("{}: {}", to_string(why.reason), why.text));
}

void Player::show(ScenarioLine& line) {
  const TaskId id{line.number()};
  const TaskRecord* task = reactor_->state().find_task(id);
  if (task == nullptr) return say(format("no task {}", id.value));
  say(format("task {} is {}, attempts {}, failures {}, losses {}, preemptions {}", id.value,
             state_name(task->state), task->attempts.value, task->failures, task->losses,
             task->preemptions));
}

/// "plan 1 w2 w1": the first stage on w2, the second on w1.
void Player::plan(ScenarioLine& line) {
  PlanMade made;
  made.task = TaskId{line.number()};
  made.plan = R"({"period_s": 1})";
  while (!line.done()) made.stages.push_back(workers_here_.at(line.word()).worker);
  feed(made);
}

void Player::policy(ScenarioLine& line) {
  policy_ = make_policy(line.word());
  restart();
}

void Player::options(ScenarioLine& line) {
  std::string key;
  std::string value;
  while (line.option(key, value)) {
    ScenarioLine number(value, 0);
    if (key == "keep_ended")
      options_.keep_ended = number.number();
    else if (key == "max_tasks")
      options_.max_tasks = number.number();
    else if (key == "max_starts")
      options_.max_starts_per_tick = number.number();
    else
      line.broken(format("unknown '{}'", key));
  }
  restart();
}

/// Neighbours that ended the same way are one line.
void Player::flush_ends() {
  if (ending_.empty()) return;
  say(first_ == last_ ? format("{} {}", first_.value, ending_)
                      : format("{} to {} {}", first_.value, last_.value, ending_));
  ending_.clear();
}

std::string Player::name_of(WorkerId worker) const {
  const WorkerRecord* record = reactor_->state().find_worker(worker);
  return record == nullptr ? "?" : record->spec.name;
}

void Player::print(const Fact& fact) {
  if (const auto* end = std::get_if<TaskEnded>(&fact)) {
    const std::string text =
        format("{}{}", to_string(end->outcome), end->last ? reason_of(*end->last) : "");
    const bool joined = text == ending_ && end->task.value == last_.value + 1;
    if (!joined) flush_ends();
    if (!joined) first_ = end->task;
    last_ = end->task;
    ending_ = text;
    return;
  }
  flush_ends();
  if (const auto* again = std::get_if<AttemptRequeued>(&fact)) {
    constexpr std::string_view kReasons[] = {"failure", "loss", "preemption", "measuring",
                                             "inability"};
    const Nanoseconds left = again->not_before == Time{} ? Nanoseconds{} : again->not_before - now_;
    say(format("{} again after {}, in {} s", again->id.task.value,
               kReasons[static_cast<int>(again->reason)],
               std::chrono::duration_cast<std::chrono::seconds>(left).count()));
  } else if (const auto* forgotten = std::get_if<TasksForgotten>(&fact)) {
    say(format("forgets {} tasks from {} on", forgotten->tasks.size(),
               forgotten->tasks.front().value));
  }
}

void Player::print(WorkerId worker, const ServerMessage& message) {
  const std::string name = name_of(worker);
  if (const auto* start = std::get_if<StartMessage>(&message)) {
    std::string devices;
    start->devices.each([&](DeviceId id) { devices += format(" {}", id.value); });
    const std::string rank =
        start->peers.empty() ? "" : format(" rank {} of {}", start->gang_rank, start->peers.size());
    say(format("start {} on {}{}{}", to_string(start->id), name,
               devices.empty() ? "" : " devices" + devices, rank));
  } else if (const auto* stop = std::get_if<StopMessage>(&message)) {
    say(format("stop {} on {}: {}", to_string(stop->id), name, to_string(stop->reason)));
  } else if (const auto* ack = std::get_if<EndAckMessage>(&message)) {
    say(format("ack {} to {}", to_string(ack->id), name));
  }
}

void Player::print(const ServerEffect& effect) {
  std::visit([this](const auto& one) { tell(one); }, effect);
}

void Player::tell(const Answer& answer) {
  if (const auto* task = std::get_if<Submitted>(&answer.reply)) {
    const std::string last =
        task->count > 1 ? format(" to {}", task->first.value + task->count - 1) : "";
    say(format("{} {}{}", task->already ? "already" : "task", task->first.value, last));
  } else if (const auto* refusal = std::get_if<Refusal>(&answer.reply)) {
    say(format("{}: {}", error_code_name(refusal->code), refusal->message));
  } else {
    say("ok");
  }
}

void Player::tell(const OpenSession& open) {
  const std::string name = name_of(open.worker);
  Presence& presence = workers_here_[name];
  presence = {open.worker, open.epoch, presence.epoch, true, false};
  say("welcome " + name);
}

void Player::tell(const RefuseSession& refuse) {
  say("refuses " + joining_ + ": " + refuse.reason);
}

void Player::tell(const SendToWorker& send) { print(send.worker, send.message); }

void Player::tell(const CloseSession& close) {
  say("closes a session of " + name_of(close.worker));
}

// Its answer is an event of the conversation.
void Player::tell(const AskPlan& ask) {
  say(format("asks for a plan of {} on {}", ask.task.value,
             joined(ask.places, " ", [](const PlanPlace& place) { return place.spec.name; })));
}

void Player::tell(const Note& note) { say("note: " + note.text); }

void Player::check_replay() const {
  ClusterState again;
  replay(journal_, again);
  HARMONICS_CHECK(again == reactor_->state(), "the facts make another state");
  FactWriter writer;
  again.snapshot([&](const Fact& fact) { writer.add(fact); });
  ClusterState restored;
  replay({writer.take()}, restored);
  HARMONICS_CHECK(restored == again, "the snapshot makes another state");
}

}  // namespace

std::string play_scenario(std::string_view text) {
  Player player;
  std::string played;
  std::istringstream in{std::string(text)};
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.starts_with("< ")) continue;
    played += line + "\n";
    if (line.starts_with("> ")) played += player.play(std::string_view(line).substr(2), number);
  }
  player.check_replay();
  return played;
}

}  // namespace harmonics::inline in_sim
