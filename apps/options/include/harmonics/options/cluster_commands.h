// What a user can ask of a cluster: one struct per subcommand, filled by parse_command_line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/graph/harp.h>
#include <harmonics/options/output_style.h>
#include <harmonics/settings/bound_setting.h>

namespace harmonics::inline in_options {

/// How a client or worker finds the server and shows who it is. What is empty is said by the
/// environment (HARMONICS_SCHEDULER, HARMONICS_TOKEN_FILE, HARMONICS_TLS), else by the client file,
/// else it is the default.
struct ServerAccess {
  std::string scheduler{};
  std::filesystem::path token_file{};
  /// Where the server's state folder is, for its token; empty: the default.
  std::filesystem::path state_dir{};
  /// Folder of 'server --init'; empty: no TLS.
  std::filesystem::path tls{};
  /// How long a client waits for a server that is not up yet.
  double patience_s = 10;
};

/// harmonics server
struct ServerCommand {
  std::int64_t port = 50051;
  std::string host = "127.0.0.1";
  std::string policy = "balanced";
  std::filesystem::path state_dir;
  std::string store;
  /// Begin with an empty store where there was another.
  bool new_store = false;
  /// -1: none.
  std::int64_t http_port = -1;
  /// /metrics and /status ask for no token.
  bool metrics_open = false;
  std::filesystem::path tls;
  std::filesystem::path tokens_file;
  bool insecure = false;
  /// Not empty: make certificates and tokens there and end.
  std::filesystem::path init;
  /// Names or addresses of the server and of machines that work; users; who is let in no longer.
  std::vector<std::string> init_hosts;
  std::vector<std::string> init_users;
  std::vector<std::string> revoked;
  /// How long certificates of `init` are good for.
  std::int64_t init_days = 730;
  std::int64_t lease_s = 30;
  std::int64_t hold_s = 900;
  /// Of one user, in a second.
  std::int64_t rate = 20'000;
  /// Of tasks of users without the role admin.
  std::int64_t max_priority = 0;
};

/// harmonics worker
struct WorkerCommand {
  ServerAccess access;
  std::string gpus;
  std::string models;
  std::string memories;
  std::string address = "localhost:0";
  std::string id;
  /// -1: what the machine has.
  std::int64_t cpus = -1;
  std::int64_t memory_mb = -1;
  std::vector<std::pair<std::string, std::string>> resources;
  std::vector<std::pair<std::string, std::string>> labels;
  std::int64_t log_mb = 64;
  std::int64_t artifact_mb = 4096;
  std::int64_t keep_mb = 65536;
  std::filesystem::path cgroup;
  std::string task_user;
  std::filesystem::path task_dir = "/var/tmp";
  double slowdown = 1;
  /// It ends after so long without a task; 0: never.
  double idle_s = 0;
};

/// A field of a task that a flag sets.
struct TaskFlag {
  std::string flag;
  std::string key;  ///< In task JSON.
  Json value;
};

/// harmonics submit
struct SubmitCommand {
  ServerAccess access;
  std::filesystem::path config;
  std::vector<std::string> command;
  std::vector<TaskFlag> fields;  ///< They win over the file.
  std::vector<std::int64_t> after;
  std::vector<std::pair<std::string, std::string>> params;
  std::vector<std::pair<std::string, std::string>> env;
  std::vector<std::filesystem::path> env_files;
  // What it needs beside devices, cores and memory; over what the file says of each.
  std::vector<std::pair<std::string, std::string>> resources;
  std::vector<std::string> gpu_models;
  std::vector<std::pair<std::string, std::string>> labels;
  std::string apart;
  std::vector<std::string> variants;  ///< "gpus=1,cpus=4,weight=0.5"
  bool wait_for_machines = false;
  std::filesystem::path dag;  ///< Many tasks instead of one.
  std::vector<std::string> artifacts;
  std::string working_dir;
  std::vector<std::string> upload;
  /// A language model that 'harmonics serve' serves with the words of `command`; empty: none.
  std::filesystem::path serve;
  // A training, or a run over data, in stages over several workers.
  std::filesystem::path pipeline;
  std::optional<std::int64_t> stages;  ///< 0: as many as the plan finds best.
  std::vector<Binding> bindings;
  std::vector<Setting> settings;
  std::filesystem::path checkpoint_dir;
  std::optional<std::int64_t> checkpoint_every;
  bool profile = false;
  bool trace = false;
  bool elastic = false;
  bool secure = false;
  /// The stages learn nothing: rows go through them, with these weights, into these files.
  bool infer = false;
  std::filesystem::path weights;
  std::vector<Binding> outputs;
  bool wait = false;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics monitor
struct MonitorCommand {
  ServerAccess access;
  std::string worker;
  double refresh_s = 1;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics tasks
struct TasksCommand {
  ServerAccess access;
  std::vector<std::string> states;
  std::string worker;
  std::int64_t limit = 50;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics task, harmonics why
struct TaskCommand {
  ServerAccess access;
  std::int64_t task = 0;
  bool why = false;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics logs
struct LogsCommand {
  ServerAccess access;
  std::int64_t task = 0;
  bool follow = false;
  std::string stream = "out";
  std::int64_t attempt = 0;
  std::int64_t rank = 0;
};

/// harmonics artifacts
struct ArtifactsCommand {
  ServerAccess access;
  std::int64_t task = 0;
  /// Empty: all.
  std::vector<std::string> paths;
  /// Where they are put; empty: they are only listed.
  std::filesystem::path to;
  std::int64_t attempt = 0;
  /// Nothing: of a pipeline that infers, all stages with results; else the first.
  std::optional<std::int64_t> rank;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics report
struct ReportCommand {
  ServerAccess access;
  std::int64_t task = 0;
  /// Empty: task-ID.html.
  std::filesystem::path out;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics priority
struct PriorityCommand {
  ServerAccess access;
  std::int64_t task = 0;
  std::int64_t priority = 0;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics cancel
struct CancelCommand {
  ServerAccess access;
  std::vector<std::int64_t> tasks;
};

/// harmonics wait
struct WaitCommand {
  ServerAccess access;
  std::vector<std::int64_t> tasks;
  /// -1: as long as it takes.
  double timeout_s = -1;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics workers
struct WorkersCommand {
  ServerAccess access;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics drain
struct DrainCommand {
  ServerAccess access;
  std::string worker;
  bool undo = false;
  bool forget = false;
};

/// harmonics quota
struct QuotaCommand {
  ServerAccess access;
  std::string user;
  std::int64_t max_gpus = 0;
  std::int64_t max_active = 0;
  std::int64_t max_waiting = 0;
  std::int64_t weight = 1;
  /// False: show what there is, of `user` or (empty) of all.
  bool sets = false;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics alloc slurm, harmonics alloc pbs
struct AllocCommand {
  ServerAccess access;
  std::string system;  ///< "slurm" or "pbs".
  std::string name = "harmonics";
  std::int64_t max_workers = 8;
  double idle_s = 120;
  double period_s = 2;
  /// More flags of the workers, as a shell would split them.
  std::string worker_flags;
  bool dry_run = false;
  bool down = false;
  std::vector<std::string> flags;  ///< Of the batch system.
  OutputStyle output = OutputStyle::kTable;
};

/// What 'harmonics up' is to do with the hosts.
enum class UpWish { kUp, kDown, kStatus };

/// harmonics up
struct UpCommand {
  ServerAccess access;
  std::filesystem::path hosts;
  UpWish wish = UpWish::kUp;
  std::int64_t parallel = 16;
  double timeout_s = 60;
  bool force = false;
  /// On the hosts.
  std::string program = "harmonics";
  /// The server as the hosts know it; empty: as it is known here.
  std::string as_seen;
  std::string ssh;  ///< Empty: ssh.
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics sim
struct SimCommand {
  std::filesystem::path trace;
  std::string nodes = "64x8";  ///< MACHINESxGPUS, or a file.
  std::string policy = "balanced";
  double limits = 0;  ///< 0: jobs have no time limit; else how far above its duration it may be.
  double restart_cost_s = 60;
  bool from_start = false;
  bool one_user = false;
  double load = 0;  ///< 0: jobs come when the trace says.
  std::int64_t seed = 1;
  OutputStyle output = OutputStyle::kTable;
};

}  // namespace harmonics::inline in_options
