// harmonics worker: runs until Ctrl-C or until the server refuses it.
#include <unistd.h>

#include <atomic>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/clients/access.h>
#include <harmonics/clients/counts.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/programs/programs.h>
#include <harmonics/server/state_folder.h>
#include <harmonics/worker/agent.h>
#include <harmonics/worker/machine.h>

#include "signals.h"
#include "subcommands.h"

namespace harmonics::inline in_cluster_program {
namespace {

namespace fs = std::filesystem;

/// Workers of one user on one machine.
constexpr int kMaxSlots = 256;

struct OwnFolder {
  fs::path path;
  std::unique_ptr<FolderLock> lock;
};

/// The folder of the worker's name, or the first that no other worker uses: a worker that comes
/// back alone finds the tasks of its earlier life.
OwnFolder find_folder(const WorkerCommand& command) {
  const fs::path all = state_folder(command.access.state_dir) / "workers";
  if (!command.id.empty()) {
    if (command.id.find('/') != command.id.npos || command.id.starts_with('.')) {
      fail(ErrorCode::kInvalidArgument, "--id: '{}' is no name for a worker", command.id);
    }
    const fs::path folder = all / ("id-" + command.id);
    make_state_folder(folder);
    return {folder, std::make_unique<FolderLock>(folder, "worker")};
  }
  for (int slot = 1; slot <= kMaxSlots; ++slot) {
    const fs::path folder = all / format("slot-{}", slot);
    make_state_folder(folder);
    try {
      return {folder, std::make_unique<FolderLock>(folder, "worker")};
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kFailedPrecondition) throw;
    }
  }
  fail(ErrorCode::kResourceExhausted, "{} workers run here already", kMaxSlots);
}

/// Where its token may lie.
std::vector<fs::path> secrets_of(const ServerAccess& access) {
  std::vector<fs::path> files = {state_folder(access.state_dir) / "token"};
  if (!access.token_file.empty()) files.push_back(access.token_file);
  if (!access.tls.empty()) files.push_back(access.tls / "worker.token");
  return files;
}

WorkerSettings settings_of(const WorkerCommand& command, const fs::path& folder) {
  WorkerSettings settings;
  const bool named = !command.gpus.empty() || !command.models.empty() || !command.memories.empty();
  settings.spec.devices =
      named ? devices_from_lists(command.gpus, command.models, command.memories) : find_gpus();
  settings.spec.name = command.id;
  settings.spec.address = command.address;
  settings.spec.cpus = command.cpus < 0 ? count_cpus() : static_cast<std::uint32_t>(command.cpus);
  settings.spec.memory_mb =
      command.memory_mb < 0 ? host_memory_mb() : static_cast<std::uint64_t>(command.memory_mb);
  settings.spec.resources = counts_from(command.resources, "--resource");
  settings.spec.labels = command.labels;
  check_worker(settings.spec);
  settings.state_dir = folder;
  settings.supervisor = path_of(kSupervisorProgram);
  settings.trainer = {path_of(kClusterProgram).string(), "train-task"};
  settings.slowdown = command.slowdown;
  settings.idle =
      std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(command.idle_s));
  settings.stage = {path_of(kClusterProgram).string(), "stage-task"};
  settings.log_bytes = static_cast<std::uint64_t>(command.log_mb) << 20;
  settings.artifact_bytes = static_cast<std::uint64_t>(command.artifact_mb) << 20;
  settings.keep_bytes = static_cast<std::uint64_t>(command.keep_mb) << 20;
  settings.cgroup = command.cgroup;
  settings.task_user = command.task_user;
  settings.task_dir = command.task_dir;
  settings.secrets = secrets_of(resolve_access(command.access));
  check_task_user(settings.task_user);
  return settings;
}

}  // namespace

int worker(const WorkerCommand& command) {
  const OwnFolder folder = find_folder(command);
  // The agent is made after the watch (which must come before any thread), so it is looked up.
  std::atomic<bool> signalled{false};
  std::atomic<WorkerAgent*> agent_pointer{nullptr};
  const SignalWatch watch([&](int) {
    signalled = true;
    if (WorkerAgent* agent = agent_pointer.load()) agent->stop();
  });
  WorkerSettings settings = settings_of(command, folder.path);  // what is wrong is said first
  try {
    settings.server = worker_options(command.access, [&] { return !signalled.load(); });
  } catch (const Error& error) {
    if (signalled && error.code() == ErrorCode::kCancelled) return kExitDone;
    throw;
  }
  const std::string server = settings.server.server;
  WorkerAgent agent(std::move(settings));
  agent_pointer = &agent;
  if (signalled) return kExitDone;
  write_text(TextStream::kOutput,
             format("worker for {}, state in '{}'\n", server, folder.path.string()));
  if (!command.task_user.empty()) {
    write_text(TextStream::kOutput,
               format("tasks run as {}\n",
                      command.task_user == "owner" ? "their owners" : escaped(command.task_user)));
  }
  if (!agent.limits_lacking().empty()) {
    write_text(TextStream::kError,
               format("the cpus and memory_mb of tasks are counted but not enforced: {}\n",
                      agent.limits_lacking()));
  }
  const std::string refused = agent.run();
  agent_pointer = nullptr;
  if (refused.empty()) return kExitDone;
  fail(ErrorCode::kFailedPrecondition, "the server at {} refuses this worker: {}", server,
       escaped(refused));
}

}  // namespace harmonics::inline in_cluster_program
