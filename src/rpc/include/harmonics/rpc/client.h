// A client of a cluster: every call waits for its answer, with a deadline.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/rpc/tls.h>
#include <harmonics/rpc/views.h>

namespace harmonics::inline in_rpc {

struct ClientOptions {
  /// "HOST:PORT", or several with commas between them of which one leads at a time.
  std::string server = "localhost:50051";
  std::string token;
  std::optional<TlsFiles> tls;
  /// Of each call; waiting and following take longer.
  std::chrono::milliseconds timeout{30'000};
  /// How long the first call waits for a server that is not up yet, besides its timeout; it is one
  /// call then, since nothing has been sent. `on_wait` is called once when it begins to.
  std::chrono::milliseconds patience{0};
  std::function<void()> on_wait{};
  /// How long `wait` looks for a server that has gone before that is an Error.
  std::chrono::milliseconds outage{30'000};
  /// How long every other call looks for one, before it is sent.
  std::chrono::milliseconds reconnect{0};
  /// Asked by the caller's thread many times a second in every call that waits: true ends the call
  /// with an Error (kCancelled). The server may have heard it all the same.
  std::function<bool()> interrupted{};
};

/// What became of one of several submits.
struct SubmitOutcome {
  Submitted submitted{};
  std::optional<Error> error{};  ///< Set: it was not acknowledged.
};

/// The addresses of `ClientOptions::server`; none, and one without a port, is an Error.
[[nodiscard]] std::vector<std::string> server_addresses(const std::string& list);

/// What a task prints, piece by piece. One thread at a time; the client must outlive it.
class OutputStream {
 public:
  ~OutputStream();
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;

  /// The next piece, waited for; nothing at the end. Throws as the client's members do, and is over
  /// then.
  [[nodiscard]] std::optional<OutputPiece> next();

 private:
  friend class ClusterClient;
  struct Parts;
  explicit OutputStream(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

/// Members may be called from any thread. Each throws an Error: what the server said, or
/// kUnavailable with what to do when it cannot be reached.
class ClusterClient {
 public:
  explicit ClusterClient(ClientOptions options);
  ~ClusterClient();
  ClusterClient(const ClusterClient&) = delete;
  ClusterClient& operator=(const ClusterClient&) = delete;

  /// Returns once the task is on the server's disk.
  Submitted submit(const TaskSpec& spec);
  /// Many at once, in no particular order; each has its own outcome. After one that cannot reach
  /// the server, and once it is interrupted, no further one is sent.
  [[nodiscard]] std::vector<SubmitOutcome> submit_all(const std::vector<TaskSpec>& specs);
  /// All of them or none; a call that broke off may have been heard, and is not sent again.
  Submitted submit_dag(const std::vector<DagRequest::Node>& nodes);
  void set_priority(TaskId task, std::int32_t priority);
  void cancel(TaskId task);
  void drain(const std::string& worker, bool drain);
  void forget(const std::string& worker);
  void set_quota(const std::string& user, const Quota& quota);
  /// Of one user, or (empty) of all that this token may see.
  [[nodiscard]] std::vector<UserView> quotas(const std::string& user);
  [[nodiscard]] TaskPage list_tasks(const ListTasksQuery& query);
  [[nodiscard]] TaskView task(TaskId id);
  [[nodiscard]] WhyPending why(TaskId id);
  /// Until the task (all of an array, by its first id) has ended or `timeout` has passed. A server
  /// that restarts meanwhile is waited for; one that is gone for longer than the options' outage is
  /// an Error (kUnavailable).
  [[nodiscard]] WaitResult wait(TaskId id, std::chrono::milliseconds timeout);
  [[nodiscard]] std::vector<WorkerView> workers();
  [[nodiscard]] ClusterStatus status();
  /// Pieces in order until the end (or, with `follow`, until the attempt has ended).
  [[nodiscard]] std::unique_ptr<OutputStream> open_output(const OutputQuery& query);
  /// The same, each piece handed to `take`, which says whether to go on.
  void read_log(const OutputQuery& query, const std::function<bool(const OutputPiece&)>& take);
  /// What an attempt left for its user (`query` says which; its stream and path do not matter).
  [[nodiscard]] std::vector<ArtifactView> artifacts(OutputQuery query);
  /// Hands out the bytes of one of them in order.
  void read_artifact(OutputQuery query, const ArtifactView& artifact,
                     const std::function<void(std::string_view)>& take);

  struct Parts;  ///< Private to rpc.

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_rpc
