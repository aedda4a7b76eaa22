// The loop that owns the cluster's state (private to server).
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>

#include <harmonics/base/channel.h>
#include <harmonics/rpc/service.h>
#include <harmonics/server/server.h>
#include <harmonics/store/store.h>

#include "door/rate_limits.h"
#include "door/tokens.h"
#include "happenings.h"
#include "planning/plan_service.h"
#include "planning/task_times.h"
#include "state_views.h"
#include "store_opening.h"
#include "waiters.h"

namespace harmonics::inline in_server {

/// Events that wait for the loop; whoever brings more has to wait too.
inline constexpr std::size_t kMaxInbox = 65'536;
/// Events that one group commit covers.
inline constexpr std::size_t kMaxBatch = 4096;
/// Tasks whose newest line of progress is remembered.
inline constexpr std::size_t kMaxProgressLines = 100'000;
/// Of such a line; a longer one is dropped.
inline constexpr std::size_t kMaxProgressBytes = 8 << 10;

/// Counted since the start; for the metrics page.
struct LoopCounters {
  std::atomic<std::uint64_t> submitted{0};
  std::atomic<std::uint64_t> started{0};
  std::atomic<std::uint64_t> ended[4]{};  ///< By TaskOutcome.
  std::atomic<std::uint64_t> commits{0};
  std::atomic<std::uint64_t> commit_ns{0};
  std::atomic<std::uint64_t> facts{0};
};

/// The server's one thread that decides: takes events in batches, lets the reactor decide, stores
/// the facts, and only then answers and sends. When the store fails it stops for good, without a
/// word to anyone (`wait_for_failure`). All public members may be called from any thread.
class ServerLoop final : public ClusterBackend {
 public:
  struct Options {
    std::string policy;  ///< Its name, for people.
    ServerOptions reactor;
    std::uint64_t rate = kDefaultRate;  ///< Requests of one user in a second.
    std::filesystem::path pipelines;    ///< Where checkpoints of pipelines go.
    bool tls = false;                   ///< The cluster speaks TLS, and so do stages of pipelines.
  };
  /// Stores the start of its term before it returns, or throws. `policy` is used by the loop's
  /// thread alone.
  ServerLoop(OpenedStore opened, Tokens tokens, Options options,
             std::unique_ptr<WorkloadPolicy> policy);
  /// Ends the thread; what waits is answered as unavailable.
  ~ServerLoop() override;

  void ask(ClientRequest request, std::function<void(ClientReply)> reply) override;
  void hello(RequestId connection, std::shared_ptr<SessionLine> line, HelloMessage hello,
             std::string output_token) override;
  void says(RequestId connection, std::vector<WorkerMessage> messages,
            std::vector<ProgressLine> progress) override;
  void gone(RequestId connection) override;
  std::optional<Identity> identify(std::string_view token) override;
  std::optional<std::string> refuse_rate(const std::string& user) override;

  [[nodiscard]] std::string wait_for_failure(Nanoseconds timeout);
  /// The number of this start of the server, counted in the store.
  [[nodiscard]] Term term() const { return term_; }
  [[nodiscard]] const LoopCounters& counters() const { return counters_; }
  /// Its histograms only.
  [[nodiscard]] const TaskTimes& times() const { return times_; }
  /// From which secrets of this server are drawn.
  [[nodiscard]] const std::string& own_token() const { return tokens_.own(); }
  /// Ends what is under way; after it every question is refused.
  void stop();

 private:
  using Reply = std::function<void(ClientReply)>;
  struct Question {
    ClientRequest request;
    Reply reply;
  };
  struct Greeting {
    RequestId connection;
    std::shared_ptr<SessionLine> line;
    HelloMessage hello;
    std::string output_token;
  };
  struct Speech {
    RequestId connection;
    std::vector<WorkerMessage> messages;
    std::vector<ProgressLine> progress;
  };
  struct Farewell {
    RequestId connection;
  };
  using Job = std::variant<Question, Greeting, Speech, Farewell, PlanMade>;

  struct Connection {
    std::shared_ptr<SessionLine> line;
    std::string output_token;
    WorkerId worker;
    Epoch epoch;  ///< 0: the hello has not been accepted.
  };

  void run();
  void turn(ServerReactor& reactor, Outbox& out);
  void commit(ServerReactor& reactor, Outbox& out);
  void handle(ServerReactor& reactor, Job& job, Time now, Outbox& out);
  void on(ServerReactor& reactor, Question& question, Time now, Outbox& out);
  void on(ServerReactor& reactor, Greeting& greeting, Time now, Outbox& out);
  void on(ServerReactor& reactor, Speech& speech, Time now, Outbox& out);
  void on(ServerReactor& reactor, Farewell& farewell, Time now, Outbox& out);
  void on(ServerReactor& reactor, PlanMade& plan, Time now, Outbox& out);
  void note_progress(const ClusterState& state, WorkerId worker, ProgressLine line);
  void note_measure(const ClusterState& state, const TaskRecord& task, std::size_t rank,
                    const std::string& line);
  void answer(const ServerReactor& reactor, Question& question, Time now);
  ClientReply look(const ServerReactor& reactor, const ListTasksQuery& query, Time now);
  ClientReply look(const ServerReactor& reactor, const TaskQuery& query, Time now);
  ClientReply look(const ServerReactor& reactor, const WhyQuery& query, Time now);
  ClientReply look(const ServerReactor& reactor, const OutputQuery& query, Time now);
  ClientReply look(const ServerReactor& reactor, const WorkersQuery& query, Time now);
  ClientReply look(const ServerReactor& reactor, const QuotasQuery& query, Time now);
  ClientReply look(const ServerReactor& reactor, const PipelinesQuery& query, Time now);
  ClientReply look(const ServerReactor& reactor, const StatusQuery& query, Time now);
  ClientReply look(const ServerReactor& reactor, const SpecQuery& query, Time now);
  ClientReply look(const ServerReactor& reactor, const PictureQuery& query, Time now);
  ClientReply find_output(const ServerReactor& reactor, const TaskRecord& task,
                          const OutputQuery& query) const;
  [[nodiscard]] TaskProgress progress_of(TaskId task) const;
  void learn(const ServerReactor& reactor, const Fact& fact);
  void carry_out(const ServerEffect& effect);
  // One for each effect: a new one does not compile until it has its own.
  void obey(const Answer& answer);
  void obey(const OpenSession& open);
  void obey(const RefuseSession& refuse);
  void obey(const SendToWorker& send);
  void obey(const CloseSession& close);
  void obey(const AskPlan& plan);
  void obey(const Note& note);
  void note_worker(WorkerId id, const char* kind);
  /// Null when the worker has no such session any more.
  [[nodiscard]] const Connection* session_of(WorkerId worker, Epoch epoch) const;
  [[nodiscard]] Time now() const;

  std::unique_ptr<Store> store_;
  const std::unique_ptr<WorkloadPolicy> policy_;
  const Tokens tokens_;
  const Options options_;
  RateLimits rates_;
  SteadyClock clock_;
  const Time started_wall_;
  const Nanoseconds started_steady_;
  LoopCounters counters_;
  TaskTimes times_;
  Channel<Job> inbox_{kMaxInbox};

  // The thread's own, from its start on.
  std::unique_ptr<ServerReactor> reactor_;
  Outbox out_;
  Term term_;
  Nanoseconds appended_{};  ///< When the store last took something, and with it the lead was sure.
  std::uint64_t requests_ = 0;
  std::unordered_map<RequestId, Reply> replies_;
  std::vector<Question> questions_;  ///< Looked at once the batch is stored.
  std::unordered_map<RequestId, Connection> connections_;
  std::unordered_map<WorkerId, RequestId> sessions_;
  std::unordered_map<WorkerId, std::string> output_tokens_;
  std::unordered_map<TaskId, TaskProgress> progress_;
  Waiters waiters_;
  Happenings happenings_;

  std::mutex mutex_;
  std::condition_variable failed_;
  std::string failure_;
  std::thread thread_;
  std::unique_ptr<PlanService> plans_;
};

}  // namespace harmonics::inline in_server
