// What the server's reactor is told. Plain values, made by sessions and the command line.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <harmonics/cluster/cluster_records.h>
#include <harmonics/cluster/ids.h>
#include <harmonics/cluster/message.h>

namespace harmonics::inline in_cluster {

/// Who asks. `admin` may touch everybody's tasks, workers and quotas.
struct Caller {
  std::string user{};
  bool admin = false;
};

struct SubmitRequest {
  RequestId request{};
  Caller caller{};
  TaskSpec spec{};
};
/// Most submissions that come at once.
inline constexpr std::size_t kMaxDagNodes = 10'000;
/// Several submissions at once, all or none, that wait for each other. Their numbers follow each
/// other in the order of the list.
struct DagRequest {
  struct Node {
    TaskSpec spec{};
    std::vector<std::uint32_t> after{};  ///< Places in the list, smaller than its own.
  };
  RequestId request{};
  Caller caller{};
  std::vector<Node> nodes{};
};
/// Tasks of one array whose priority changes in one step at most.
inline constexpr std::uint32_t kMaxPriorityChanges = 100'000;
/// Of a task that has not ended; an array's first id means all of it.
struct PriorityRequest {
  RequestId request{};
  Caller caller{};
  TaskId task{};
  std::int32_t priority = 0;
};
/// An array's first id cancels all of it.
struct CancelRequest {
  RequestId request{};
  Caller caller{};
  TaskId task{};
};
struct DrainRequest {
  RequestId request{};
  Caller caller{};
  std::string worker{};
  bool drain = true;
};
/// Gives up on a worker that is away: its attempts count as lost at once. Only for a machine that
/// is known to be dead, since nothing else keeps two attempts apart then.
struct ForgetRequest {
  RequestId request{};
  Caller caller{};
  std::string worker{};
};
struct QuotaRequest {
  RequestId request{};
  Caller caller{};
  std::string user{};
  Quota quota{};
};

/// A connection that has authenticated as a worker says hello. `connection` is the caller's own
/// number for it; effects name it until the epoch is known.
struct WorkerHello {
  RequestId connection{};
  HelloMessage hello{};
};
/// Any other message of a session.
struct WorkerSays {
  WorkerId worker{};
  Epoch epoch{};
  WorkerMessage message{};
};
/// The session's connection has ended. The lease goes on.
struct WorkerGone {
  WorkerId worker{};
  Epoch epoch{};
};

/// The answer to AskPlan.
struct PlanMade {
  TaskId task{};
  std::vector<WorkerId> stages{};  ///< Where each stage goes, in their order; empty: no plan.
  std::string plan{};              ///< For the workers; at most kMaxPlanBytes.
  std::string problem{};           ///< Why there is no plan.
  bool measures = false;           ///< First, measure the model on these workers; then ask again.
  bool hopeless = false;           ///< No other workers could help: the task fails.
  /// The period of the plan that runs, reckoned like that of this one; 0: not asked, not known.
  double running_period_s = 0;
};

using ServerEvent =
    std::variant<SubmitRequest, CancelRequest, DrainRequest, ForgetRequest, QuotaRequest,
                 WorkerHello, WorkerSays, WorkerGone, PlanMade, DagRequest, PriorityRequest>;

}  // namespace harmonics::inline in_cluster
