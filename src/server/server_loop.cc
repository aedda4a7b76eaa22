#include "server_loop.h"

#include <algorithm>

#include <harmonics/base/check.h>
#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/log.h>

#include "gang_secret.h"
#include "planning/plan_words.h"

#ifndef HARMONICS_VERSION
#define HARMONICS_VERSION "unknown"
#endif

namespace harmonics::inline in_server {
namespace {

Time wall_now() {
  return std::chrono::duration_cast<Time>(std::chrono::system_clock::now().time_since_epoch());
}

/// Busy seconds for a micro-batch that a stage tells in its progress (docs/formats/progress.md); 0:
/// it does not.
double measured_seconds(const std::string& line) {
  constexpr std::string_view kKey = "micro_batch_s";
  if (line.find(kKey) == line.npos) return 0;
  try {
    return Json::parse(line, "progress").at(kKey).as_number();
  } catch (const Error&) {
    return 0;
  }
}

/// Whether a request changes something; the others only ask.
template <typename Request>
constexpr bool kIsChange = requires(Request request) {
  request.request;
};

const TaskRecord* find_seen(const ClusterState& state, const Viewer& viewer, TaskId id) {
  const TaskRecord* task = state.find_task(id);
  return task != nullptr && may_see(viewer, *task) ? task : nullptr;
}

ClientReply no_task(TaskId id) {
  return Refusal{ErrorCode::kNotFound, format("there is no task {}", id.value)};
}

Refusal stopping() {
  return {ErrorCode::kUnavailable, "the server is stopping: try again when it is back"};
}

}  // namespace

ServerLoop::ServerLoop(OpenedStore opened, Tokens tokens, Options options,
                       std::unique_ptr<WorkloadPolicy> policy)
    : store_(std::move(opened.store)),
      policy_(std::move(policy)),
      tokens_(std::move(tokens)),
      options_(std::move(options)),
      rates_(options_.rate),
      started_wall_(wall_now()),
      started_steady_(clock_.now()) {
  plans_ = std::make_unique<PlanService>(PlanService::Options{options_.pipelines, options_.tls},
                                         [this](PlanMade plan) { inbox_.push(std::move(plan)); });
  reactor_ = std::make_unique<ServerReactor>(std::move(opened.state), *policy_, options_.reactor,
                                             now(), out_);
  term_ = reactor_->state().term();
  times_.begin(reactor_->state());
  commit(*reactor_, out_);
  thread_ = std::thread([this] { run(); });
}

ServerLoop::~ServerLoop() { stop(); }

void ServerLoop::stop() {
  inbox_.close();
  if (thread_.joinable()) thread_.join();
  plans_.reset();
}

Time ServerLoop::now() const { return started_wall_ + (clock_.now() - started_steady_); }

void ServerLoop::ask(ClientRequest request, std::function<void(ClientReply)> reply) {
  if (!inbox_.push(Question{std::move(request), reply})) reply(stopping());
}

void ServerLoop::hello(RequestId connection, std::shared_ptr<SessionLine> line, HelloMessage hello,
                       std::string output_token) {
  inbox_.push(Greeting{connection, std::move(line), std::move(hello), std::move(output_token)});
}

void ServerLoop::says(RequestId connection, std::vector<WorkerMessage> messages,
                      std::vector<ProgressLine> progress) {
  inbox_.push(Speech{connection, std::move(messages), std::move(progress)});
}

void ServerLoop::gone(RequestId connection) { inbox_.push(Farewell{connection}); }

std::optional<Identity> ServerLoop::identify(std::string_view token) {
  return tokens_.identify(token, clock_.now());
}

std::optional<std::string> ServerLoop::refuse_rate(const std::string& user) {
  if (rates_.admit(user, clock_.now())) return std::nullopt;
  return format(
      "{} sent more than {} {} within a second: slow down, hand in an array instead of single "
      "tasks, or raise the server's --rate",
      user.empty() ? std::string("clients with unknown tokens") : "'" + user + "'", options_.rate,
      options_.rate == 1 ? "request" : "requests");
}

std::string ServerLoop::wait_for_failure(Nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  failed_.wait_for(lock, timeout, [this] { return !failure_.empty(); });
  return failure_;
}

void ServerLoop::run() {
  try {
    while (!inbox_.closed()) turn(*reactor_, out_);
    waiters_.release(reactor_->state());
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    failure_ = error.what();
    failed_.notify_all();
  }
  // Nobody is left unanswered; what was not stored was never promised.
  inbox_.close();
  for (auto& [request, reply] : replies_) reply(stopping());
  while (auto job = inbox_.pop(Nanoseconds(0))) {
    if (auto* question = std::get_if<Question>(&*job)) question->reply(stopping());
  }
}

void ServerLoop::turn(ServerReactor& reactor, Outbox& out) {
  const Time wake = std::min(reactor.deadline(), waiters_.deadline());
  const Time before = now();
  Nanoseconds patience = wake == kNever ? Channel<Job>::kForever : wake - before;
  const Nanoseconds renew = store_->renew_every();
  if (renew != kNoRenewal) patience = std::min(patience, appended_ + renew - clock_.now());
  auto job = inbox_.pop(std::max(patience, Nanoseconds(0)));
  const Time at = now();
  for (std::size_t taken = 0; job; ++taken) {
    handle(reactor, *job, at, out);
    if (taken == kMaxBatch) break;
    job = inbox_.pop(Nanoseconds(0));
  }
  reactor.tick(at, out);
  commit(reactor, out);
  for (Question& question : std::exchange(questions_, {})) answer(reactor, question, at);
  waiters_.expire(reactor.state(), at);
  if (should_compact(store_->sizes())) store_->compact(reactor.state());
}

void ServerLoop::commit(ServerReactor& reactor, Outbox& out) {
  const Nanoseconds begin = clock_.now();
  const Nanoseconds renew = store_->renew_every();
  const bool due = renew != kNoRenewal && begin - appended_ >= renew;
  if (!out.facts.empty() || !out.effects.empty() || due) {
    // Also without facts: it tells whether this server still leads, before it says anything more.
    store_->append(out.facts);
    appended_ = clock_.now();
    counters_.commit_ns += static_cast<std::uint64_t>((appended_ - begin).count());
    ++counters_.commits;
    counters_.facts += out.facts.size();
  }
  for (const ServerEffect& effect : out.effects) carry_out(effect);
  for (const Fact& fact : out.facts) learn(reactor, fact);
  out.clear();
}

void ServerLoop::handle(ServerReactor& reactor, Job& job, Time now, Outbox& out) {
  std::visit([&](auto& kind) { on(reactor, kind, now, out); }, job);
}

void ServerLoop::on(ServerReactor& reactor, Question& question, Time now, Outbox& out) {
  const RequestId id{++requests_};
  const auto change = [&](auto& request) {
    request.request = id;
    replies_.emplace(id, std::move(question.reply));
    reactor.handle(std::move(request), now, out);
  };
  std::visit(
      [&](auto& request) {
        if constexpr (kIsChange<decltype(request)>) {
          change(request);
        } else {
          questions_.push_back(std::move(question));
        }
      },
      question.request);
}

void ServerLoop::on(ServerReactor& reactor, Greeting& greeting, Time now, Outbox& out) {
  connections_[greeting.connection] = {
      std::move(greeting.line), std::move(greeting.output_token), {}, {}};
  reactor.handle(WorkerHello{greeting.connection, std::move(greeting.hello)}, now, out);
}

void ServerLoop::on(ServerReactor& reactor, Speech& speech, Time now, Outbox& out) {
  const auto known = connections_.find(speech.connection);
  if (known == connections_.end() || known->second.epoch == Epoch{}) return;
  const Connection& connection = known->second;
  for (WorkerMessage& message : speech.messages) {
    reactor.handle(WorkerSays{connection.worker, connection.epoch, std::move(message)}, now, out);
  }
  for (ProgressLine& line : speech.progress) {
    note_progress(reactor.state(), connection.worker, std::move(line));
  }
}

void ServerLoop::on(ServerReactor& reactor, PlanMade& plan, Time now, Outbox& out) {
  reactor.handle(std::move(plan), now, out);
}

void ServerLoop::note_progress(const ClusterState& state, WorkerId worker, ProgressLine line) {
  const TaskRecord* task = state.find_task(line.id.task);
  if (task == nullptr || line.id.attempt != task->attempts) return;
  if (line.line.size() > kMaxProgressBytes) return;
  if (progress_.size() >= kMaxProgressLines && !progress_.contains(line.id.task)) return;
  TaskProgress& progress = progress_[line.id.task];
  progress.newest = line.line;
  const std::vector<WorkerId>& places = task->places;
  const auto place = std::ranges::find(places, worker);
  if (place == places.end() || (places.size() < 2 && !task->spec().pipeline)) return;
  const auto rank = static_cast<std::size_t>(place - places.begin());
  progress.members.resize(places.size());
  progress.measured.resize(places.size());
  if (!progress.measured[rank]) note_measure(state, *task, rank, line.line);
  progress.members[rank] = std::move(line.line);
}

// Once in an attempt: the first lines that tell it tell it well enough.
void ServerLoop::note_measure(const ClusterState& state, const TaskRecord& task, std::size_t rank,
                              const std::string& line) {
  const auto* active = std::get_if<Active>(&task.state);
  if (!task.spec().pipeline || active == nullptr || active->measures) return;
  const double seconds = measured_seconds(line);
  const WorkerRecord* worker = state.find_worker(task.places[rank]);
  if (seconds <= 0 || worker == nullptr) return;
  progress_[task.id].measured[rank] = true;
  const PlanPlace place{worker->id, worker->spec, active->members.at(rank).devices};
  plans_->learn({task.submission, place, active->plan, rank, seconds});
}

void ServerLoop::on(ServerReactor& reactor, Farewell& farewell, Time now, Outbox& out) {
  const auto known = connections_.find(farewell.connection);
  if (known == connections_.end()) return;
  const Connection connection = std::move(known->second);
  connections_.erase(known);
  if (connection.epoch == Epoch{}) return;
  const auto session = sessions_.find(connection.worker);
  if (session != sessions_.end() && session->second == farewell.connection) {
    sessions_.erase(session);
    note_worker(connection.worker, "away");
  }
  reactor.handle(WorkerGone{connection.worker, connection.epoch}, now, out);
}

void ServerLoop::learn(const ServerReactor& reactor, const Fact& fact) {
  times_.learn(reactor.state(), fact, now());
  happenings_.learn(reactor.state(), fact, now());
  if (const auto* submitted = std::get_if<TasksSubmitted>(&fact)) {
    counters_.submitted += submitted->submission->spec.count();
  } else if (const auto* started = std::get_if<AttemptStarted>(&fact)) {
    ++counters_.started;
    progress_.erase(started->id.task);
  } else if (const auto* ended = std::get_if<TaskEnded>(&fact)) {
    ++counters_.ended[static_cast<std::size_t>(ended->outcome)];
    waiters_.on_end(reactor.state(), ended->task);
  } else if (const auto* forgotten = std::get_if<TasksForgotten>(&fact)) {
    for (const TaskId task : forgotten->tasks) progress_.erase(task);
  }
}

void ServerLoop::carry_out(const ServerEffect& effect) {
  std::visit([this](const auto& one) { obey(one); }, effect);
}

void ServerLoop::obey(const Answer& answer) {
  const auto known = replies_.find(answer.request);
  if (known == replies_.end()) return;
  std::visit([&](const auto& reply) { known->second(reply); }, answer.reply);
  replies_.erase(known);
}

void ServerLoop::obey(const OpenSession& open) {
  const auto known = connections_.find(open.connection);
  if (known == connections_.end()) return;
  Connection& connection = known->second;
  connection.worker = open.worker;
  connection.epoch = open.epoch;
  connection.line->open(open.epoch);
  output_tokens_[open.worker] = connection.output_token;
  note_worker(open.worker, "connected");
  const auto old = sessions_.find(open.worker);
  if (old != sessions_.end() && old->second != open.connection) {
    const auto older = connections_.find(old->second);
    if (older != connections_.end()) older->second.line->close();
  }
  sessions_[open.worker] = open.connection;
}

void ServerLoop::note_worker(WorkerId id, const char* kind) {
  if (const WorkerRecord* worker = reactor_->state().find_worker(id)) {
    happenings_.note_worker(worker->spec.name, kind, now());
  }
}

void ServerLoop::obey(const RefuseSession& refuse) {
  const auto known = connections_.find(refuse.connection);
  if (known == connections_.end()) return;
  known->second.line->send(RefusedMessage{refuse.reason});
  known->second.line->close();
}

void ServerLoop::obey(const SendToWorker& send) {
  const Connection* connection = session_of(send.worker, send.epoch);
  if (connection == nullptr) return;
  const auto* start = std::get_if<StartMessage>(&send.message);
  if (start != nullptr && !start->peers.empty()) {
    StartMessage told = *start;
    told.gang_secret = gang_secret(tokens_.own(), told.id);
    connection->line->send(told);
  } else {
    connection->line->send(send.message);
  }
}

void ServerLoop::obey(const CloseSession& close) {
  if (const Connection* connection = session_of(close.worker, close.epoch)) {
    connection->line->close();
  }
}

void ServerLoop::obey(const AskPlan& plan) { plans_->ask(plan); }

void ServerLoop::obey(const Note& note) { log_warn("server", "{}", note.text); }

const ServerLoop::Connection* ServerLoop::session_of(WorkerId worker, Epoch epoch) const {
  const auto session = sessions_.find(worker);
  if (session == sessions_.end()) return nullptr;
  const auto known = connections_.find(session->second);
  if (known == connections_.end() || known->second.epoch != epoch) return nullptr;
  return &known->second;
}

// What changes nothing is answered when what came before it is stored. A kind of question that has
// no `look` does not compile.
void ServerLoop::answer(const ServerReactor& reactor, Question& question, Time now) {
  std::visit(
      [&]<typename Request>(const Request& request) {
        if constexpr (std::is_same_v<Request, WaitQuery>) {
          waiters_.add(reactor.state(), request, now, std::move(question.reply));
        } else if constexpr (kIsChange<Request>) {
          HARMONICS_CHECK(!kIsChange<Request>, "a change waits among the questions");
        } else {
          question.reply(look(reactor, request, now));
        }
      },
      question.request);
}

TaskProgress ServerLoop::progress_of(TaskId task) const {
  const auto known = progress_.find(task);
  return known == progress_.end() ? TaskProgress{} : known->second;
}

ClientReply ServerLoop::look(const ServerReactor& reactor, const ListTasksQuery& query, Time) {
  return list_tasks(reactor.state(), query, [this](TaskId task) { return progress_of(task); });
}

ClientReply ServerLoop::look(const ServerReactor& reactor, const TaskQuery& query, Time) {
  const TaskRecord* task = find_seen(reactor.state(), query.viewer, query.task);
  if (task == nullptr) return no_task(query.task);
  return view_task(reactor.state(), *task, [this](TaskId id) { return progress_of(id); });
}

ClientReply ServerLoop::look(const ServerReactor& reactor, const WhyQuery& query, Time now) {
  const TaskRecord* task = find_seen(reactor.state(), query.viewer, query.task);
  if (task == nullptr) return no_task(query.task);
  WhyPending why = reactor.why(query.task, now);
  if (!task->plan().empty()) {
    why.text += " " + explain_plan(task->plan(), progress_of(query.task).members);
  }
  return why;
}

ClientReply ServerLoop::look(const ServerReactor& reactor, const OutputQuery& query, Time) {
  const TaskRecord* task = find_seen(reactor.state(), query.viewer, query.task);
  return task == nullptr ? no_task(query.task) : find_output(reactor, *task, query);
}

ClientReply ServerLoop::look(const ServerReactor& reactor, const WorkersQuery&, Time) {
  return view_workers(reactor);
}

ClientReply ServerLoop::look(const ServerReactor& reactor, const QuotasQuery& query, Time) {
  return view_quotas(reactor.state(), query);
}

ClientReply ServerLoop::look(const ServerReactor& reactor, const PipelinesQuery&, Time) {
  return view_pipelines(reactor.state(), [this](TaskId task) { return progress_of(task); });
}

ClientReply ServerLoop::look(const ServerReactor& reactor, const SpecQuery& query, Time) {
  const TaskRecord* task = find_seen(reactor.state(), query.viewer, query.task);
  if (task == nullptr) return no_task(query.task);
  return task->spec();
}

ClientReply ServerLoop::look(const ServerReactor& reactor, const PictureQuery& query, Time) {
  PictureView picture;
  picture.tasks =
      view_picture(reactor.state(), query, [this](TaskId task) { return progress_of(task); });
  happenings_.fill(query, picture);
  return picture;
}

ClientReply ServerLoop::look(const ServerReactor& reactor, const StatusQuery&, Time now) {
  ClusterStatus status = view_status(reactor);
  status.version = HARMONICS_VERSION;
  status.policy = options_.policy;
  status.now = now;
  return status;
}

ClientReply ServerLoop::find_output(const ServerReactor& reactor, const TaskRecord& task,
                                    const OutputQuery& query) const {
  if (task.attempts.value == 0) {
    return Refusal{ErrorCode::kFailedPrecondition,
                   format("task {} has not started yet: 'harmonics why {}' says why", task.id.value,
                          task.id.value)};
  }
  const AttemptNumber attempt = query.attempt.value == 0 ? task.attempts : query.attempt;
  if (task.attempts < attempt) {
    return Refusal{ErrorCode::kInvalidArgument,
                   format("task {} has attempts 1 to {}", task.id.value, task.attempts.value)};
  }
  const std::vector<WorkerId>* places = task.places_of(attempt);
  if (places == nullptr) {
    return Refusal{ErrorCode::kNotFound,
                   format("where attempt {} of task {} ran is not known any more: the server "
                          "remembers that of the last {}",
                          attempt.value, task.id.value, kMaxPastAttempts + 1)};
  }
  if (query.rank >= places->size()) {
    return Refusal{ErrorCode::kInvalidArgument,
                   format("task {} has ranks 0 to {}", task.id.value, places->size() - 1)};
  }
  const WorkerId place = (*places)[query.rank];
  const WorkerRecord* worker = reactor.state().find_worker(place);
  const auto token = output_tokens_.find(place);
  if (worker == nullptr || token == output_tokens_.end()) {
    return Refusal{ErrorCode::kFailedPrecondition,
                   format("the worker that ran task {} is away: its output comes back with it",
                          task.id.value)};
  }
  return OutputPlace{worker->spec.address, token->second, {task.id, attempt}};
}

}  // namespace harmonics::inline in_server
