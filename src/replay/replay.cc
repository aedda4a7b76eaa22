#include <harmonics/replay/replay.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>
#include <harmonics/cluster/reactor.h>

#include "replay_books.h"
#include "replay_jobs.h"

namespace harmonics::inline in_replay {
namespace {

/// The clock begins here, so that no moment is zero.
constexpr Time kBegin = std::chrono::hours(24);
/// Nobody falls silent in a replay.
constexpr Nanoseconds kForever = std::chrono::hours(24 * 365 * 40);

ServerOptions server_options() {
  ServerOptions options;
  options.lease = options.hold = options.heartbeat = kForever;
  options.stop_grace = Nanoseconds{};
  options.keep_ended = 0;
  return options;
}

/// A member of an attempt ends by itself.
struct End {
  Time at{};
  std::uint64_t sequence = 0;
  AttemptId id{};
  WorkerId node{};
  bool operator<(const End& other) const {
    return std::pair(at, sequence) > std::pair(other.at, other.sequence);
  }
};

class Replay {
 public:
  Replay(const Trace& trace, const ReplayOptions& options, WorkloadPolicy& policy)
      : options_(options),
        jobs_(trace, options),
        books_(options.nodes, jobs_),
        policy_(policy),
        reactor_({}, policy_, server_options(), kBegin, out_) {}

  ReplayReport run();

 private:
  void join_nodes();
  void play_queue();
  void play_bag();
  void submit(std::size_t job);
  void settle();
  void carry_out();
  void carry_out(const ServerEffect& effect);
  void obey(const StartMessage& start, WorkerId node);
  void obey(const StopMessage& stop, WorkerId node);
  void end(AttemptId id, WorkerId node, EndKind kind);
  void says(WorkerId node, WorkerMessage message) {
    reactor_.handle(WorkerSays{node, epochs_[node.value], std::move(message)}, now_, out_);
  }

  const ReplayOptions& options_;
  ReplayJobs jobs_;
  ReplayBooks books_;
  WorkloadPolicy& policy_;
  Outbox out_;
  Outbox done_;
  ServerReactor reactor_;
  Time now_ = kBegin;
  std::vector<Epoch> epochs_{1};  ///< By number of the node.
  std::priority_queue<End> ends_;
  std::uint64_t sequence_ = 0;
};

void Replay::join_nodes() {
  epochs_.resize(options_.nodes.size() + 1);
  for (std::size_t i = 0; i < options_.nodes.size(); ++i) {
    WorkerSpec spec = options_.nodes[i];
    spec.identity = format("{}", i);
    reactor_.handle(WorkerHello{RequestId{i + 1}, {spec, {}}}, now_, out_);
    carry_out();
  }
}

void Replay::submit(std::size_t job) {
  SubmitRequest request;
  request.request = RequestId{job + 1};
  request.caller = {std::string(jobs_.user(job)), true};
  request.spec = jobs_.spec(job);
  books_.arrived(job, now_);
  reactor_.handle(request, now_, out_);
}

// Lets the reactor come to rest at this moment.
void Replay::settle() {
  do {
    reactor_.tick(now_, out_);
    carry_out();
  } while (reactor_.deadline() <= now_);
}

void Replay::carry_out() {
  while (!out_.effects.empty()) {
    done_.clear();
    std::swap(done_, out_);
    for (const ServerEffect& effect : done_.effects) carry_out(effect);
  }
  out_.facts.clear();
}

void Replay::carry_out(const ServerEffect& effect) {
  if (const auto* open = std::get_if<OpenSession>(&effect)) {
    epochs_.at(open->worker.value) = open->epoch;
  } else if (const auto* send = std::get_if<SendToWorker>(&effect)) {
    if (const auto* start = std::get_if<StartMessage>(&send->message)) obey(*start, send->worker);
    if (const auto* stop = std::get_if<StopMessage>(&send->message)) obey(*stop, send->worker);
  } else if (const auto* answer = std::get_if<Answer>(&effect)) {
    if (const auto* refusal = std::get_if<Refusal>(&answer->reply)) {
      fail(ErrorCode::kInvalidArgument, "job {}: {}", answer->request.value, refusal->message);
    }
  }
}

void Replay::obey(const StartMessage& start, WorkerId node) {
  const std::size_t job = jobs_.index(start.id.task);
  const Nanoseconds left = books_.started(job, start, node, now_);
  says(node, LaunchedMessage{start.id});
  if (left != kNever) ends_.push({now_ + left, ++sequence_, start.id, node});
}

void Replay::obey(const StopMessage& stop, WorkerId node) {
  books_.stopped(jobs_.index(stop.id.task), stop.id, now_);
  end(stop.id, node, EndKind::kStopped);
}

void Replay::end(AttemptId id, WorkerId node, EndKind kind) {
  if (!books_.ended(jobs_.index(id.task), id, node, kind == EndKind::kSucceeded, now_)) return;
  says(node, EndedMessage{id, {kind, 0, 0, {}}});
}

void Replay::play_queue() {
  std::size_t next = 0;
  while (next < jobs_.size() || !ends_.empty()) {
    Time at = reactor_.deadline();
    if (next < jobs_.size()) at = std::min(at, kBegin + jobs_.arrival(next));
    if (!ends_.empty()) at = std::min(at, ends_.top().at);
    books_.pass(std::max(now_, at));
    now_ = std::max(now_, at);
    while (!ends_.empty() && ends_.top().at <= now_) {
      const End last = ends_.top();
      ends_.pop();
      end(last.id, last.node, EndKind::kSucceeded);
    }
    carry_out();
    for (; next < jobs_.size() && kBegin + jobs_.arrival(next) <= now_; ++next) {
      if (next + 1 == jobs_.size()) books_.last_arrival();
      submit(next);
    }
    settle();
  }
}

void Replay::play_bag() {
  for (std::size_t job = 0; job < jobs_.size(); ++job) {
    now_ += std::chrono::seconds(1);
    submit(job);
    settle();
    if (books_.running(job)) continue;
    reactor_.handle(CancelRequest{RequestId{job + 1}, {{}, true}, jobs_.task(job)}, now_, out_);
    settle();
  }
}

ReplayReport Replay::run() {
  join_nodes();
  if (options_.load > 0) {
    play_bag();
  } else {
    play_queue();
  }
  return books_.report(now_ - kBegin);
}

}  // namespace

ReplayReport replay(const Trace& trace, const ReplayOptions& options, WorkloadPolicy& policy) {
  if (options.nodes.empty()) fail(ErrorCode::kInvalidArgument, "a replay needs machines");
  return Replay(trace, options, policy).run();
}

}  // namespace harmonics::inline in_replay
