// A plan with a replicated stage, planned from measurements and run: three hosts, one of which
// computes half as fast, as processes that wait as long as their host would compute more.
//
// The two quick hosts take turns at one stage, the slow one has the other. What the planner says a
// batch takes, and what it took, must be within a tenth of each other.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <harmonics/base/clock.h>
#include <harmonics/base/error.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/units.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/place/plan_partition.h>
#include <harmonics/place/profile.h>
#include <harmonics/plan/plan.h>
#include <harmonics/plan/planner.h>
#include <harmonics/schedule/remote_scheduler.h>

#include "pieces/made_rows.h"
#include "rounds.h"

namespace {

using namespace harmonics;

// Two cores carry all three: each computes for a half, or a quarter, of its time.
constexpr double kQuick = 2;
constexpr double kSlow = 4;

struct Load {
  HarmonicGraph graph;
  std::int64_t batches = 0;
  int rounds = 0;
};

Load load_of(bool short_run) {
  if (short_run) return {zoo_graph("transformer-small"), 6, 1};
  return {zoo_graph("vit-base"), 48, 3};
}

/// Seconds of a batch at one host: from one to the next, and what it did in them.
struct HostTimes {
  double period = 0, computing = 0, for_core = 0, for_input = 0, for_room = 0;
};

/// Numbers that a process of its own gives: nothing of libtorch is alive in this one.
std::vector<double> apart(std::size_t count, double slowdown,
                          const std::function<std::vector<double>()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) fail(ErrorCode::kUnavailable, "there is no pipe");
  std::fflush(stdout);
  if (::fork() == 0) {
    ::setenv("HARMONICS_SLOWDOWN", format("{}", slowdown).c_str(), 1);
    const std::vector<double> made = work();
    const auto size = static_cast<ssize_t>(made.size() * sizeof(double));
    ::_exit(::write(ends[1], made.data(), made.size() * sizeof(double)) == size ? 0 : 1);
  }
  ::close(ends[1]);
  std::vector<double> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (::read(ends[0], &numbers[i], sizeof(double)) != sizeof(double)) {
      fail(ErrorCode::kUnavailable, "a process ended before it said what it measured");
    }
  }
  ::close(ends[0]);
  return numbers;
}

/// What the planner is told: two quick hosts and a slow one, joined by memory.
PlanProblem problem_of(const Load& load, std::vector<double> times_s) {
  PlanProblem problem;
  problem.model = load.graph.name();
  problem.dtype = "torch.float32";
  problem.layer_memory_mb.assign(times_s.size(), 1);
  problem.cut_bytes.assign(times_s.size() + 1, 1e6);
  constexpr double kMemoryMbps = 1e5;
  constexpr double kEnoughMb = 1e6;
  problem.classes.push_back({"quick", {"a", "b"}, kMemoryMbps, kEnoughMb, times_s, {}});
  for (double& time : times_s) time *= kSlow / kQuick;
  problem.classes.push_back({"slow", {"c"}, kMemoryMbps, kEnoughMb, times_s, {}});
  return problem;
}

std::vector<double> unit_times(const HarmonicGraph& graph, bool short_run) {
  ProfileOptions options;
  options.batch_size = 1;
  options.threads = 1;
  options.repeats = short_run ? 2 : 9;
  const SteadyClock clock;
  return profile_graph(graph, options, clock).times().time_s;
}

struct Seat {
  std::size_t part, copy;
  double slowdown;
};

/// All stages of a plan, each in as many processes as it has hosts.
class PlanRun {
 public:
  PlanRun(const Load& load, const Plan& plan)
      : load_(load), plan_(plan), parts_(partition_graph(load.graph, plan)) {
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      for (std::size_t copy = 0; copy < plan.stages[part].hosts.size(); ++copy) {
        seats_.push_back({part, copy, plan.stages[part].hosts[copy] == "c" ? kSlow : kQuick});
      }
    }
  }

  /// What a batch took at the slow host.
  HostTimes slow_host() {
    const std::string run = format("copies.{}.{}", ::getpid(), rounds_++);
    std::vector<pid_t> children;
    for (const Seat& seat : seats_) {
      if (is_told(seat)) continue;
      std::fflush(stdout);
      const pid_t child = ::fork();
      if (child == 0) {
        ::setenv("HARMONICS_SLOWDOWN", format("{}", seat.slowdown).c_str(), 1);
        static_cast<void>(stream(seat, run));
        ::_exit(0);
      }
      children.push_back(child);
    }
    HostTimes times;
    for (const Seat& seat : seats_) {
      if (!is_told(seat)) continue;
      const auto told = apart(5, seat.slowdown, [&] {
        const HostTimes made = stream(seat, run);
        return std::vector{made.period, made.computing, made.for_core, made.for_input,
                           made.for_room};
      });
      times = {told[0], told[1], told[2], told[3], told[4]};
    }
    for (const pid_t child : children) ::waitpid(child, nullptr, 0);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return times;
  }

 private:
  [[nodiscard]] CopyTurns turns(std::size_t part) const {
    return CopyTurns(std::vector<std::uint32_t>(plan_.stages[part].hosts.size(), 1));
  }
  /// The slow host has a stage to itself, through which every batch goes.
  [[nodiscard]] static bool is_told(const Seat& seat) { return seat.slowdown == kSlow; }
  [[nodiscard]] PartCopies copies_of(const Seat& seat) const;
  [[nodiscard]] HostTimes stream(const Seat& seat, const std::string& run) const;

  const Load& load_;
  const Plan plan_;
  const std::vector<HarmonicGraph> parts_;
  std::vector<Seat> seats_;
  int rounds_ = 0;
};

PartCopies PlanRun::copies_of(const Seat& seat) const {
  PartCopies copies{turns(seat.part), seat.copy, {}};
  for (std::size_t other = 0; other < parts_.size(); ++other) {
    for (const ConsumerNode& node : parts_[other].consumers()) {
      if (parts_[seat.part].producer_index(node.name)) {
        copies.others.emplace(node.name, turns(other));
      }
    }
    for (const ConsumerNode& node : parts_[seat.part].consumers()) {
      if (parts_[other].producer_index(node.name)) copies.others.emplace(node.name, turns(other));
    }
  }
  return copies;
}

HostTimes PlanRun::stream(const Seat& seat, const std::string& run) const {
  const HarmonicGraph& part = parts_[seat.part];
  RemoteOptions options;
  options.runtime.threads = 1;
  options.transport.run = run;
  options.copies = copies_of(seat);
  DeploymentDescriptor deploy;
  deploy.partitions.resize(1);
  deploy.partitions[0].target = "shm://127.0.0.1:1";
  RemoteScheduler scheduler(part, {}, {}, deploy, options);
  NamedProducers data;
  for (const ProducerNode& node : part.producers()) {
    if (is_boundary_name(node.name)) continue;
    const bool used = std::ranges::any_of(part.layers(), [&](const LayerNode& layer) {
      return std::ranges::find(layer.inputs, node.name) != layer.inputs.end();
    });
    if (!used) continue;
    data.emplace(
        node.name,
        std::make_shared<BatchProducer>(
            std::make_shared<MemoryProducer>(bench::made_rows(node, load_.batches, 2)), 1));
  }
  const PartFlow flow = scheduler.stream(data, {}).parts.front();
  const auto of_batch = [&](Nanoseconds sum) {
    return in_seconds(sum) / static_cast<double>(std::max<std::int64_t>(1, flow.batches));
  };
  return {in_seconds(flow.period), of_batch(flow.busy), of_batch(flow.for_core),
          of_batch(flow.for_input), of_batch(flow.for_room)};
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  const Load load = load_of(short_run);
  const std::size_t units = graph_units(load.graph).size();
  const PlanProblem problem =
      problem_of(load, apart(units, kQuick, [&] { return unit_times(load.graph, short_run); }));
  PlannerOptions options;
  options.replicate = true;
  const PlanOutcome outcome = make_plan(problem, options);
  const Plan plan = name_hosts(problem, outcome.placement);
  std::printf("%s", plan_to_yaml(plan).c_str());
  std::printf("name | ours | reference | ratio | bar\n");
  PlanRun run(load, plan);
  std::vector<double> ratios, periods;
  for (int i = 0; i < load.rounds; ++i) {
    const HostTimes times = run.slow_host();
    const double period = times.period;
    std::printf(
        "round %d, the slow host: %.1f ms a batch, computing %.1f (for a core %.1f), waiting for "
        "input %.1f, for room %.1f\n",
        i + 1, 1e3 * period, 1e3 * times.computing, 1e3 * times.for_core, 1e3 * times.for_input,
        1e3 * times.for_room);
    periods.push_back(period);
    ratios.push_back(std::max(period / outcome.period_s, outcome.period_s / period));
  }
  const bool near = bench::row(
      format("{} on three hosts, two of which take turns, one half as fast: period to the plan's",
             load.graph.name()),
      format("{:.1f} ms", 1e3 * bench::median(periods)),
      format("{:.1f} ms", 1e3 * outcome.period_s), bench::median(ratios), "<= 1.1");
  return check && !near ? 1 : 0;
}
