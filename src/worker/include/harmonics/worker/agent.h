// The worker: runs what the server assigns to this machine's devices.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/cluster/worker.h>
#include <harmonics/rpc/client.h>

namespace harmonics::inline in_worker {

struct WorkerSettings {
  /// The server, this worker's token, TLS.
  ClientOptions server;
  /// What it offers; name (empty: the server picks one) and address ("localhost:0") as wished.
  WorkerSpec spec;
  /// Its own folder, locked while it lives; a worker that starts there again finds its tasks.
  std::filesystem::path state_dir;
  /// harmonics-supervisor.
  std::filesystem::path supervisor;
  /// What a task without a command runs; the task's parameters are in its environment.
  std::vector<std::string> trainer;
  /// What runs a stage of a pipeline; see HARMONICS_PIPELINE* in its environment.
  std::vector<std::string> stage;
  /// Poses as a machine that takes so many times as long; for trying out plans.
  double slowdown = 1;
  /// It ends after so long without a task; 0: never.
  Nanoseconds idle{};
  /// Kept of each stream of a task's output.
  std::uint64_t log_bytes = 64 << 20;
  /// Artifacts of one attempt; what is above is left out, and the attempt's end says so.
  std::uint64_t artifact_bytes = std::uint64_t{4} << 30;
  /// Output and artifacts of attempts that are over; the oldest go first.
  std::uint64_t keep_bytes = std::uint64_t{64} << 30;
  /// A folder of cgroup v2 for the tasks' limits; empty: one is looked for.
  std::filesystem::path cgroup{};
  /// Tasks run as this user, or with "owner" as the user with the name of their owner; empty: as
  /// the worker. They work below `task_dir` then.
  std::string task_user{};
  std::filesystem::path task_dir = "/var/tmp";
  /// What must be closed to such tasks, besides its folder and key: the file of its token.
  std::vector<std::filesystem::path> secrets{};
};

/// Throws an Error: this process cannot run tasks as that user, or it is none to run tasks as.
void check_task_user(const std::string& task_user);

/// Runs until the server refuses it for good, `stop` is called or it was idle for too long. Tasks
/// outlive it: a worker that comes back re-attaches to them.
class WorkerAgent {
 public:
  /// Throws an Error: the folder is in use, the supervisor is missing, the address is taken.
  explicit WorkerAgent(WorkerSettings settings);
  ~WorkerAgent();
  WorkerAgent(const WorkerAgent&) = delete;
  WorkerAgent& operator=(const WorkerAgent&) = delete;

  /// Empty after `stop` and idleness; else why the server wants nothing of this worker.
  [[nodiscard]] std::string run();
  /// Why the kernel does not keep tasks within their `cpus` and `memory_mb` here; empty: it does.
  [[nodiscard]] const std::string& limits_lacking() const;
  /// Any thread, and signal handlers.
  void stop();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_worker
