// From an assignment to a process: what exactly is run, and with which environment (private to
// worker). Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/cluster/message.h>
#include <harmonics/rpc/tls.h>

#include "supervisor/run_record.h"
#include "task_users.h"

namespace harmonics::inline in_worker {

/// What of the worker itself goes into every task.
struct TaskSurroundings {
  WorkerSpec worker;
  std::vector<std::pair<std::string, std::string>> environment;  ///< The worker's own.
  std::vector<std::string> trainer;
  std::vector<std::string> stage;  ///< What runs a stage of a pipeline.
  double slowdown = 1;             ///< HARMONICS_SLOWDOWN of its tasks, unless 1.
  std::optional<TlsFiles> tls{};   ///< What stages of pipelines speak TLS with.
  std::string lease_file;
  std::uint64_t log_bytes = 0;
  std::uint64_t grace_ms = 0;
  std::uint64_t artifact_bytes = 0;
};

/// Ports below those that the system gives to outgoing connections, with room for every rank.
inline constexpr std::uint16_t kFirstGangPort = 10000;
inline constexpr std::uint16_t kGangPorts = 9000;
/// A port that all members of an attempt agree on without asking anyone, drawn from their secret.
/// Nobody reserves it; another attempt, or one of another cluster, most likely has another.
[[nodiscard]] std::uint16_t gang_port(const StartMessage& start);

/// The task's variables win over the worker's, ours over both. With an `account` it runs as that
/// user: home and names are the account's, and what the worker's environment says about the
/// worker's own user is left out; it works in `folder` unless it names another.
[[nodiscard]] RunRecord make_run(const StartMessage& start, const TaskSurroundings& around,
                                 const TaskAccount* account = nullptr,
                                 const std::string& folder = {});

/// "17.2" and back; an Error for anything else.
[[nodiscard]] AttemptId attempt_from(const std::string& name);

/// What a supervisor wrote, in the cluster's words, and the other way round.
[[nodiscard]] EndResult end_result(const EndRecord& end);
[[nodiscard]] RunEnd run_end(EndKind kind);

}  // namespace harmonics::inline in_worker
