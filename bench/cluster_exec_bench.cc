// A whole cluster on this machine, server, worker, supervisors and real processes: how many tasks a
// second, at what CPU cost, and how soon they start. References, all in the same run: starting the
// same program bare, the disk's fsync, and bare gRPC without a cluster behind it.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/rpc/client.h>
#include <harmonics/server/policy_process.h>
#include <harmonics/server/state_folder.h>

#include <temporary_folder_testing.h>

#include "reference/bare_grpc.h"
#include "rounds.h"

namespace {

using namespace harmonics;
namespace fs = std::filesystem;

constexpr int kClients = 16;
constexpr auto kPatience = std::chrono::minutes(4);

/// CPU of all that is started in here, where cgroups may be made (cpuacct of v1, or v2).
class CpuAccount {
 public:
  CpuAccount() {
    for (const char* root : {"/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup"}) {
      const fs::path folder = fs::path(root) / format("harmonics-bench-{}", ::getpid());
      std::error_code error;
      if (!fs::exists(fs::path(root) / "cgroup.procs") || !fs::create_directory(folder, error)) {
        continue;
      }
      folder_ = folder;
      if (seconds()) return;
      fs::remove(folder, error);
      folder_.clear();
    }
  }
  ~CpuAccount() {
    std::error_code error;
    if (!folder_.empty()) fs::remove(folder_, error);
  }
  /// What `start` starts is counted from its first moment on.
  template <typename Start>
  void count(Start start) const {
    const auto move_to = [](const fs::path& folder) {
      std::ofstream(folder / "cgroup.procs") << ::getpid();
    };
    if (!folder_.empty()) move_to(folder_);
    start();
    if (!folder_.empty()) move_to(folder_.parent_path());
  }
  std::optional<double> seconds() const {
    if (folder_.empty()) return std::nullopt;
    double value = 0;
    if (std::ifstream usage(folder_ / "cpuacct.usage"); usage >> value) return value * 1e-9;
    std::ifstream stat(folder_ / "cpu.stat");
    std::string key;
    if (stat >> key >> value && key == "usage_usec") return value * 1e-6;
    return std::nullopt;
  }

 private:
  fs::path folder_;
};

/// A program of ours that ends with the benchmark.
class Process {
 public:
  Process(const std::vector<std::string>& words, const fs::path& output) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT, 0600);
    ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ) != 0) pid_ = -1;
    ::posix_spawn_file_actions_destroy(&actions);
  }
  ~Process() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Waits for `done`; a cluster that does not come up ends the benchmark.
template <typename Done>
void await(Done done, const char* what) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) {
      std::fprintf(stderr, "waited too long for %s\n", what);
      std::exit(2);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// The port that a server said once it was ready (`mark`).
std::string port_said(const fs::path& output, const char* mark) {
  std::string port;
  await(
      [&] {
        const std::string said = text_of(output);
        const std::size_t at = said.find("127.0.0.1:");
        if (said.find(mark) == said.npos) return false;
        port = said.substr(at + 10, said.find(',', at) - at - 10);
        return true;
      },
      "a server");
  return port;
}

/// Server and worker in a scratch folder.
class Cluster {
 public:
  Cluster(const fs::path& program, const fs::path& folder, const CpuAccount& account)
      : folder_(folder) {
    ::setenv("XDG_STATE_HOME", folder.c_str(), 1);
    account.count([&] {
      server_.emplace(std::vector<std::string>{program, "server", "--port", "0"},
                      folder / "server.out");
    });
    options_.server = "127.0.0.1:" + port_said(folder_ / "server.out", ", policy");
    options_.token = read_token_file(folder / "harmonics" / "token");
    account.count([&] {
      worker_.emplace(std::vector<std::string>{program, "worker", "--scheduler", options_.server},
                      folder / "worker.out");
    });
    ClusterClient client(options_);
    await([&] { return client.status().workers_connected == 1; }, "the worker");
  }
  const ClientOptions& options() const { return options_; }
  double server_cpu_seconds() const {
    clockid_t clock{};
    if (::clock_getcpuclockid(server_->pid(), &clock) != 0) std::exit(2);
    return bench::seconds(clock);
  }

 private:
  fs::path folder_;
  ClientOptions options_;
  std::optional<Process> server_;
  std::optional<Process> worker_;
};

TaskSpec true_task() {
  TaskSpec spec;
  spec.name = "true";
  spec.required_gpus = 0;
  spec.command = {"/bin/true"};
  return spec;
}

/// Submits `count` tasks one by one from kClients clients at once; the ids.
std::vector<TaskId> submit_singly(const ClientOptions& options, TaskSpec spec, int count) {
  std::vector<TaskId> ids(static_cast<std::size_t>(count));
  std::atomic<int> next{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&] {
      ClusterClient client(options);
      for (int i = next++; i < count; i = next++) {
        ids[static_cast<std::size_t>(i)] = client.submit(spec).first;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  return ids;
}

double bare_rate(int count) {
  const double begin = bench::seconds(CLOCK_MONOTONIC);
  for (int i = 0; i < count; ++i) {
    pid_t pid = 0;
    char program[] = "/bin/true";
    char* argv[] = {program, nullptr};
    if (::posix_spawn(&pid, program, nullptr, nullptr, argv, environ) == 0) {
      ::waitpid(pid, nullptr, 0);
    }
  }
  return count / (bench::seconds(CLOCK_MONOTONIC) - begin);
}

double median_fsync_seconds(const fs::path& folder, int count) {
  const int file = ::open((folder / "fsync").c_str(), O_WRONLY | O_CREAT, 0600);
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const double begin = bench::seconds(CLOCK_MONOTONIC);
    if (::write(file, "x", 1) != 1 || ::fsync(file) != 0) std::exit(2);
    times.push_back(bench::seconds(CLOCK_MONOTONIC) - begin);
  }
  ::close(file);
  return bench::median(times);
}

double bare_start_ms() {
  const double begin = bench::seconds(CLOCK_REALTIME);
  FILE* pipe = ::popen("exec /bin/date +%s%N", "r");
  char text[64] = {};
  if (pipe == nullptr || std::fgets(text, sizeof text, pipe) == nullptr) std::exit(2);
  ::pclose(pipe);
  return (std::strtod(text, nullptr) * 1e-9 - begin) * 1e3;
}

struct Scale {
  int tasks;
  int starts;
  int submits;
  std::uint32_t queued;
};

/// What a command prints, up to its first end of line.
std::string said_by(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  char text[256] = {};
  if (pipe == nullptr) std::exit(2);
  if (std::fgets(text, sizeof text, pipe) == nullptr) text[0] = 0;
  ::pclose(pipe);
  const std::string_view line(text);
  return std::string(line.substr(0, line.find('\n')));
}

/// The same tasks through a Slurm that runs on this machine, if there is one.
void measure_slurm(int count) {
  if (std::system("sinfo --noheader >/dev/null 2>&1") != 0) {
    std::printf("Slurm is not running here: no row for it\n");
    return;
  }
  const double begin = bench::seconds(CLOCK_MONOTONIC);
  const std::string job =
      said_by(format("sbatch --parsable --output=/dev/null --array=1-{} --wrap=true", count));
  if (job.empty()) std::exit(2);
  // `sbatch --wait` looks only every few seconds.
  await([&] { return said_by("squeue --noheader --jobs=" + job).empty(); }, "Slurm");
  const double rate = count / (bench::seconds(CLOCK_MONOTONIC) - begin);
  std::printf("true tasks end to end through Slurm, one array | %.0f/s | - | - | -\n", rate);
}

bool measure_execution(const Cluster& cluster, const CpuAccount& account, const Scale& scale) {
  ClusterClient client(cluster.options());
  const double bare = bare_rate(scale.tasks / 4);
  bool good = true;
  for (const bool array : {false, true}) {
    const auto cpu = account.seconds();
    const double begin = bench::seconds(CLOCK_MONOTONIC);
    TaskSpec spec = true_task();
    std::vector<TaskId> ids;
    if (array) {
      spec.array = static_cast<std::uint32_t>(scale.tasks);
      ids.push_back(client.submit(spec).first);
    } else {
      ids = submit_singly(cluster.options(), spec, scale.tasks);
    }
    for (const TaskId id : ids) {
      if (!client.wait(id, kPatience).ended) std::exit(2);
    }
    const double rate = scale.tasks / (bench::seconds(CLOCK_MONOTONIC) - begin);
    const char* how = array ? "one array" : "one by one, 16 clients";
    std::printf("true tasks end to end, %s | %.0f/s | bare %.0f/s | %.0f/s | >= 500/s\n", how, rate,
                bare, rate);
    good = good && rate >= 500;
    if (cpu) {
      const double each = (*account.seconds() - *cpu) / scale.tasks * 1e3;
      std::printf("CPU of the whole stack per task, %s | %.2f ms | - | %.2f ms | <= 2 ms\n", how,
                  each, each);
      good = good && each <= 2;
    }
  }
  return good;
}

/// From before the submit until the task's program (date) reads the clock; the reference starts the
/// same program bare.
bool measure_start(const Cluster& cluster, const Scale& scale) {
  ClusterClient client(cluster.options());
  std::vector<double> latencies, bare;
  for (int i = 0; i < scale.starts; ++i) {
    bare.push_back(bare_start_ms());
    TaskSpec spec = true_task();
    spec.command = {"/bin/date", "+%s%N"};
    const double begin = bench::seconds(CLOCK_REALTIME);
    OutputQuery query;
    query.task = client.submit(spec).first;
    if (!client.wait(query.task, kPatience).ended) std::exit(2);
    std::string printed;
    client.read_log(query, [&](const OutputPiece& piece) {
      printed += piece.data;
      return true;
    });
    latencies.push_back((std::stod(printed) * 1e-9 - begin) * 1e3);
  }
  const double middle = bench::median(latencies);
  std::printf(
      "submit to running on an idle cluster, p50 | %.1f ms | bare %.1f ms | %.1f ms | <= 10 ms\n",
      middle, bench::median(bare), middle);
  return middle <= 10;
}

/// No worker can run these, so they only queue.
TaskSpec queued_task() {
  TaskSpec spec = true_task();
  spec.required_gpus = 8;
  spec.wait_for_machines = true;
  return spec;
}

/// Calls a second of as many clients to a server that only sends messages of that size back.
double bare_calls(const fs::path& folder, int count) {
  constexpr std::size_t kTaskBytes = 32;
  const fs::path output = folder / "bare.out";
  const Process server({fs::read_symlink("/proc/self/exe"), "--bare-grpc"}, output);
  const std::string address = "127.0.0.1:" + port_said(output, ", ready");
  return reference::bare_grpc_rate(address, kClients, count, kTaskBytes);
}

/// Seconds of processor time that one submit costs the server.
double submit_cpu(const Cluster& cluster, int count) {
  const double before = cluster.server_cpu_seconds();
  submit_singly(cluster.options(), queued_task(), count);
  return (cluster.server_cpu_seconds() - before) / count;
}

bool measure_submits(const Cluster& cluster, const fs::path& folder, const Scale& scale) {
  const double fsync_s = median_fsync_seconds(folder, 50);
  const double wanted = 0.5 * kClients / fsync_s;
  const double begin = bench::seconds(CLOCK_MONOTONIC);
  const double few = submit_cpu(cluster, scale.submits);
  const double rate = scale.submits / (bench::seconds(CLOCK_MONOTONIC) - begin);
  std::printf(
      "durable submits, 16 clients | %.0f/s | fsync %.2f ms | %.2f of 0.5 x 16 / fsync | >= 1\n",
      rate, fsync_s * 1e3, rate / wanted);
  const double bare = bare_calls(folder, scale.submits);
  std::printf("the same beside bare gRPC without a store | %.0f/s | %.0f/s | %.2f | -\n", rate,
              bare, rate / bare);
  std::printf("CPU of the server per durable submit | %.3f ms | - | %.3f ms | <= 0.2 ms\n",
              few * 1e3, few * 1e3);
  TaskSpec many = queued_task();
  many.array = scale.queued;
  ClusterClient(cluster.options()).submit(many);
  const double full = submit_cpu(cluster, scale.submits);
  std::printf("the same with %u tasks in the queue | %.3f ms | with %d %.3f ms | %.2f | <= 1.2\n",
              scale.queued, full * 1e3, scale.submits, few * 1e3, full / few);
  return rate >= wanted && few <= 0.2e-3 && full <= 1.2 * few;
}

/// Decisions of a policy library in its process, one after the other, each of which changes a
/// worker or two. The library looks at every worker.
bool measure_policy(const fs::path& binaries, int decisions) {
  const fs::path library = binaries / "tests" / "contrary_policy.so";
  if (!fs::exists(library)) {
    std::printf("no '%s': no row for policy libraries\n", library.c_str());
    return true;
  }
  WorkerPool pool;
  constexpr std::uint32_t kWorkers = 1000;
  for (std::uint32_t i = 1; i <= kWorkers; ++i) {
    WorkerSpec spec;
    spec.name = format("worker-{}", i);
    spec.cpus = 64;
    for (int gpu = 0; gpu < 8; ++gpu) spec.devices.push_back({std::to_string(gpu), "gpu", 16384});
    pool.put(WorkerId{i}, spec);
    pool.set_open(WorkerId{i}, true);
  }
  TaskSpec spec = true_task();
  spec.required_gpus = 1;
  PolicyProcess policy(binaries / "harmonics-cluster", library, kPatience);
  std::vector<Assignment> given;
  double begin = 0;
  for (int i = -1; i < decisions; ++i) {
    // The first one brings all workers.
    if (i == 0) begin = bench::seconds(CLOCK_MONOTONIC);
    policy.begin_pass();
    given.push_back(policy.assign_task(pool, spec));
    pool.take(given.back().worker, given.back().devices, needs_of(spec));
    if (i % 2 == 0) continue;
    const Assignment old = given[given.size() / 2];
    pool.give_back(old.worker, old.devices, needs_of(spec));
    given.erase(given.begin() + static_cast<std::ptrdiff_t>(given.size() / 2));
  }
  const double rate = decisions / (bench::seconds(CLOCK_MONOTONIC) - begin);
  return bench::row(format("decisions of a policy library, {} workers", kWorkers),
                    format("{:.0f}/s", rate), "5000/s", rate / 5000, ">= 1");
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  if (bench::has_flag(argc, argv, "--bare-grpc")) reference::serve_bare_grpc();
  const Scale scale = short_run ? Scale{100, 5, 100, 10'000} : Scale{2000, 51, 5000, 1'000'000};
  const fs::path program =
      fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "harmonics";
  const TemporaryFolder folder;
  std::printf("name | ours | reference | ratio | bar\n");
  bool good = measure_policy(program.parent_path(), short_run ? 100 : 5000);
  {
    const CpuAccount account;
    {
      const Cluster cluster(program, folder, account);
      good = measure_execution(cluster, account, scale) && good;
      measure_slurm(scale.tasks / 10);
      good = measure_start(cluster, scale) && good;
      good = measure_submits(cluster, folder, scale) && good;
    }
    if (!account.seconds())
      std::printf("CPU per task is not measured: no cgroup may be made here\n");
  }
  return check && !good ? 1 : 0;
}
