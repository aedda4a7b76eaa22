// The cluster's core without processes or network: decisions of the policies beside a search over
// all workers, tasks through the reactor with a durable store, single submits beside the disk's own
// sync, a million pending tasks, and how fast they are read back.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/random.h>
#include <harmonics/cluster/policy.h>
#include <harmonics/cluster/reactor.h>
#include <harmonics/store/store.h>

#include <temporary_folder_testing.h>

#include "reference/naive_policy.h"
#include "rounds.h"

namespace {

using namespace harmonics;
using bench::row;
using bench::seconds;

double cpu_seconds() { return seconds(CLOCK_PROCESS_CPUTIME_ID); }
double wall_seconds() { return seconds(CLOCK_MONOTONIC); }

/// Of the sizes that the goals name.
struct Scale {
  std::uint32_t workers = 10'000;
  std::size_t decisions = 100'000;
  std::size_t naive_decisions = 200;
  std::uint32_t array = 200'000;
  std::size_t submits = 4000;
  std::uint64_t tasks = 1'000'000;
};
constexpr Scale kShort{.workers = 500,
                       .decisions = 2000,
                       .naive_decisions = 50,
                       .array = 2000,
                       .submits = 200,
                       .tasks = 20'000};

WorkerSpec worker_of(std::uint32_t number) {
  constexpr std::uint64_t kMemories[] = {16384, 24576, 40960, 81920};
  WorkerSpec spec;
  spec.identity = std::to_string(number);
  spec.cpus = 64;
  spec.memory_mb = 512 << 10;
  for (int gpu = 0; gpu < 8; ++gpu) {
    spec.devices.push_back({std::to_string(gpu), "gpu", kMemories[number % 4]});
  }
  return spec;
}

TaskSpec draw_task(Random& random) {
  TaskSpec spec;
  spec.name = "task";
  spec.required_gpus = static_cast<std::uint32_t>(1 + random.below(4));
  spec.min_gpu_memory_mb = 8192 << random.below(4);
  spec.cpus = static_cast<std::uint32_t>(random.below(9));
  spec.memory_mb = random.below(32 << 10);
  return spec;
}

/// A cluster about four fifths full, in which every decision starts a task and an old one ends.
class Busy {
 public:
  Busy(std::uint32_t workers, std::uint64_t seed) : random_(seed, "cluster core") {
    for (std::uint32_t i = 1; i <= workers; ++i) {
      WorkerSpec spec = worker_of(i);
      spec.name = format("worker-{}", i);
      pool_.put(WorkerId{i}, spec);
      pool_.set_open(WorkerId{i}, true);
    }
    BalancedPolicy balanced;
    while (running_.size() < std::size_t{workers} * 5 / 2) {
      const TaskSpec spec = draw_task(random_);
      take(balanced.try_assign(pool_, spec), spec);
    }
  }

  template <typename Choose>
  double decisions_per_second(std::size_t count, Choose choose) {
    const double start = cpu_seconds();
    for (std::size_t i = 0; i < count; ++i) {
      const TaskSpec spec = draw_task(random_);
      const std::optional<Assignment> chosen = choose(pool_, spec);
      take(chosen, spec);
      if (!chosen) continue;
      end_one();
      ++placed_;
    }
    return static_cast<double>(count) / (cpu_seconds() - start);
  }

  /// How many decisions found a worker.
  [[nodiscard]] std::size_t placed() const { return placed_; }

 private:
  struct Running {
    Assignment assignment;
    Needs needs;
  };

  void take(const std::optional<Assignment>& chosen, const TaskSpec& spec) {
    if (!chosen) return;
    pool_.take(chosen->worker, chosen->devices, needs_of(spec));
    running_.push_back({*chosen, needs_of(spec)});
  }
  void end_one() {
    std::swap(running_[random_.below(running_.size())], running_.back());
    const Running ended = running_.back();
    running_.pop_back();
    pool_.give_back(ended.assignment.worker, ended.assignment.devices, ended.needs);
  }

  Random random_;
  WorkerPool pool_;
  std::vector<Running> running_;
  std::size_t placed_ = 0;
};

bool decisions(const std::string& name, const Scale& scale,
               std::optional<Assignment> (*naive)(const WorkerPool&, const TaskSpec&)) {
  const std::unique_ptr<WorkloadPolicy> policy = make_policy(name);
  const auto ours = [&](const WorkerPool& pool, const TaskSpec& spec) {
    return policy->try_assign(pool, spec);
  };
  Busy cluster(scale.workers, 1);
  const double fast = cluster.decisions_per_second(scale.decisions, ours);
  const double placed =
      static_cast<double>(cluster.placed()) / static_cast<double>(scale.decisions);
  const double slow = Busy(scale.workers, 1).decisions_per_second(scale.naive_decisions, naive);
  bool good = row(format("{}: decisions, {} workers x 8 GPUs", name, scale.workers),
                  format("{:.0f}/s, {:.0f} % placed", fast, 100 * placed),
                  format("{:.0f}/s by a search over all", slow), fast / slow,
                  scale.workers < 1000 ? ">= 1" : ">= 20");
  good &= row(format("{}: against the goal", name), format("{:.0f}/s", fast), "10000/s",
              fast / 10'000, ">= 1");
  return good;
}

/// A server's loop without a network: batches go through reactor and store, workers answer at once.
class Loop {
 public:
  Loop(Store& store, std::uint32_t workers) : store_(store) {
    store_.lead(std::chrono::seconds(10));
    ServerOptions options;
    options.max_tasks = 4'000'000;
    reactor_ = std::make_unique<ServerReactor>(load_state(store_), policy_, options, now_, out_);
    for (std::uint32_t i = 1; i <= workers; ++i) {
      reactor_->handle(WorkerHello{RequestId{i}, {worker_of(i), {}}}, now_, out_);
    }
    turn();
  }

  void submit(TaskSpec spec) {
    reactor_->handle(SubmitRequest{RequestId{1}, {"ann", false}, std::move(spec)}, now_, out_);
  }
  /// Ends the batch; what was started is launched and ends in the next.
  void turn() {
    now_ += std::chrono::milliseconds(1);
    for (const SendToWorker& start : started_) {
      const AttemptId id = std::get<StartMessage>(start.message).id;
      reactor_->handle(WorkerSays{start.worker, start.epoch, LaunchedMessage{id}}, now_, out_);
      reactor_->handle(WorkerSays{start.worker, start.epoch, EndedMessage{id, {}}}, now_, out_);
    }
    started_.clear();
    reactor_->tick(now_, out_);
    store_.append(out_.facts);
    for (ServerEffect& effect : out_.effects) {
      auto* send = std::get_if<SendToWorker>(&effect);
      if (send == nullptr || !std::holds_alternative<StartMessage>(send->message)) continue;
      started_.push_back(std::move(*send));
    }
    out_.clear();
  }
  /// Until the queue has been looked at as a whole.
  void settle() {
    do {
      turn();
    } while (reactor_->deadline() == Time{});
  }
  [[nodiscard]] std::uint64_t ended() const { return reactor_->state().counts()[4]; }
  [[nodiscard]] const ClusterState& state() const { return reactor_->state(); }

 private:
  Store& store_;
  BalancedPolicy policy_;
  Outbox out_;
  Time now_ = std::chrono::hours(1);
  std::unique_ptr<ServerReactor> reactor_;
  std::vector<SendToWorker> started_;
};

bool array_tasks(const Scale& scale) {
  const TemporaryFolder folder;
  const auto store = open_sqlite_store(folder.path() / "cluster.db");
  Loop loop(*store, 64);
  const double cpu = cpu_seconds();
  const double wall = wall_seconds();
  TaskSpec spec;
  spec.name = "true";
  spec.command = {"true"};
  spec.array = scale.array;
  loop.submit(std::move(spec));
  while (loop.ended() < scale.array) loop.turn();
  const double per_cpu = scale.array / (cpu_seconds() - cpu);
  const double per_wall = scale.array / (wall_seconds() - wall);
  bool good = row(format("array of {}: through reactor and SQLite, per CPU second", scale.array),
                  format("{:.0f} tasks/s", per_cpu), "20000 tasks/s", per_cpu / 20'000, ">= 1");
  std::printf(
      "array of %u: the same per second of this machine | %.0f tasks/s | 20000 tasks/s | %.3g "
      "|\n",
      scale.array, per_wall, per_wall / 20'000);
  return good;
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Writes 4 KiB and syncs them, in the store's folder: what a disk asks for one commit.
class RawSync {
 public:
  explicit RawSync(const std::filesystem::path& folder)
      : descriptor_(::open((folder / "sync").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {}
  ~RawSync() { ::close(descriptor_); }
  RawSync(const RawSync&) = delete;
  RawSync& operator=(const RawSync&) = delete;

  void once() {
    const double start = wall_seconds();
    if (::write(descriptor_, block_.data(), block_.size()) < 0 || ::fdatasync(descriptor_) != 0) {
      fail_errno(errno, "sync");
    }
    times_.push_back(wall_seconds() - start);
  }
  [[nodiscard]] double median() const { return median_of(times_); }

 private:
  int descriptor_;
  std::string block_ = std::string(4096, 'x');
  std::vector<double> times_;
};

TaskSpec single(std::uint64_t number) {
  TaskSpec spec;
  spec.name = format("experiment {}", number);
  spec.command = {"python3", "train.py", "--seed", std::to_string(number)};
  spec.params = {{"model", "resnet50"}, {"learning_rate", "0.001"}};
  return spec;
}

/// What sixteen clients get who each wait for their answer: sixteen submits in a commit. The rate
/// is that of the median commit, as the disk's is that of the median sync.
struct Submits {
  double rate = 0;
  double cpu_each = 0;
};
Submits submit_singles(Loop& loop, std::size_t count, RawSync* beside = nullptr) {
  constexpr std::size_t kClients = 16;
  double cpu = 0;
  std::vector<double> commits;
  for (std::size_t i = 0; i < count; i += kClients) {
    const double cpu_start = cpu_seconds();
    const double wall_start = wall_seconds();
    for (std::size_t client = 0; client < kClients; ++client) loop.submit(single(i + client));
    loop.turn();
    commits.push_back(wall_seconds() - wall_start);
    cpu += cpu_seconds() - cpu_start;
    if (beside != nullptr) beside->once();
  }
  return {kClients / median_of(std::move(commits)), cpu / static_cast<double>(count)};
}

// The queue keeps tasks of one kind together; here each is of its own kind, and none can start.
bool many_kinds(const Scale& scale) {
  const auto store = open_store("memory:");
  Loop loop(*store, 8);
  std::uint64_t made = 0;
  const auto submit = [&](std::size_t count) {
    const double cpu = cpu_seconds();
    for (std::size_t i = 0; i < count; ++i) {
      TaskSpec spec = single(++made);
      spec.memory_mb = (1 << 20) + made;  // More than any worker has.
      loop.submit(std::move(spec));
      if (i % 16 == 15) loop.turn();
    }
    return (cpu_seconds() - cpu) / static_cast<double>(count);
  };
  (void)submit(1024);
  const double few = submit(scale.submits);
  while (made < scale.tasks / 10) {
    TaskSpec spec = single(++made);
    spec.memory_mb = (1 << 20) + made;
    loop.submit(std::move(spec));
  }
  loop.settle();  // Each kind is looked at once, which is the cost of those submits.
  const double many = submit(scale.submits);
  return row(format("CPU of a submit at {} kinds of tasks against 1000", made),
             format("{:.4f} ms", 1e3 * many), format("{:.4f} ms", 1e3 * few), many / few, "<= 1.2");
}

std::uint64_t heap_bytes() { return mallinfo2().uordblks; }

// Submits into an empty server and into a full one, then what a full one costs and how it is read
// back. Nobody runs anything, so that all tasks stay pending.
bool many_tasks(const Scale& scale) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "cluster.db";
  bool good = true;
  const std::uint64_t before = heap_bytes();
  auto store = open_sqlite_store(file);
  auto loop = std::make_unique<Loop>(*store, 0);
  (void)submit_singles(*loop, 1000);
  RawSync raw(folder.path());
  const Submits few = submit_singles(*loop, scale.submits, &raw);
  const double sync = raw.median();
  good &= row("single durable submits, 16 clients", format("{:.0f}/s", few.rate),
              format("{:.0f}/s: 16 per sync of {:.0f} us", 16 / sync, 1e6 * sync),
              few.rate * sync / 16, ">= 0.5");
  good &= row("CPU of a single durable submit", format("{:.4f} ms", 1e3 * few.cpu_each), "0.2 ms",
              few.cpu_each / 0.2e-3, "<= 1");
  for (std::uint64_t made = loop->state().task_count(); made < scale.tasks;) {
    for (int i = 0; i < 10'000; ++i) loop->submit(single(made++));
    loop->turn();
  }
  const double bytes = static_cast<double>(heap_bytes() - before);
  const auto tasks = static_cast<double>(loop->state().task_count());
  good &= row(format("{:.0f} pending tasks in memory", tasks), format("{:.2f} GB", bytes / 1e9),
              "1.5 GB a million", bytes / tasks / 1500, "<= 1");
  const Submits many = submit_singles(*loop, scale.submits);
  good &= row(format("CPU of a submit at {:.0f} tasks against 1000", tasks),
              format("{:.4f} ms", 1e3 * many.cpu_each), format("{:.4f} ms", 1e3 * few.cpu_each),
              many.cpu_each / few.cpu_each, "<= 1.2");
  const auto read_back = [&](std::string_view what) {
    store = open_sqlite_store(file);
    store->lead(std::chrono::seconds(10));
    const double cpu = cpu_seconds();
    const ClusterState state = load_state(*store);
    const double spent = cpu_seconds() - cpu;
    if (state.task_count() < scale.tasks) std::exit(2);
    const double limit = 5 * static_cast<double>(state.task_count()) / 1e6;
    good &= row(format("{} of {} tasks read back, CPU", what, state.task_count()),
                format("{:.2f} s", spent), format("{:.2f} s", limit), spent / limit, "<= 1");
    return state.task_count();
  };
  loop.reset();
  store.reset();
  read_back("journal");
  const ClusterState state = load_state(*store);
  const double start = cpu_seconds();
  store->compact(state);
  std::printf("snapshot of %zu tasks written, CPU | %.2f s | | |\n", state.task_count(),
              cpu_seconds() - start);
  store.reset();
  read_back("snapshot");
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  const Scale scale = short_run ? kShort : Scale{};
  std::printf("name | ours | reference | ratio | bar\n");
  bool good = decisions("simple", scale, reference::naive_simple);
  good &= decisions("balanced", scale, reference::naive_balanced);
  good &= array_tasks(scale);
  good &= many_kinds(scale);
  good &= many_tasks(scale);
  return check && !good ? 1 : 0;
}
