// The planner against a straightforward dynamic programme, and against its own limits: CPU seconds,
// certified gap and memory on drawn problems of up to 10,000 hosts.
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/base/random.h>
#include <harmonics/plan/planner.h>
#include <harmonics/plan/request.h>

#include "reference/naive_plan.h"
#include "rounds.h"

namespace {

using namespace harmonics;
using bench::row;

struct Draw {
  std::size_t layers = 500;
  std::size_t types = 8;
  std::size_t hosts = 32;  // per type: half to all of them
  bool all_hosts = false;
  bool tight_memory = false;
};

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double between(Random& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random.uniform());
}

// Layers with the pattern of a transformer block, types of different speed and bandwidth.
PlanProblem draw(const Draw& what, std::uint64_t seed) {
  constexpr double kCost[] = {1, .25, 1.05, .9};
  constexpr double kNumbers[] = {302592, 302592, 756480, 151296};
  constexpr double kMemory[] = {26, 19.5, 27, 26.3};
  constexpr double kBandwidth[] = {250, 500, 1000, 2500};
  constexpr double kBytes = 4 * 8;  // of a number, in a batch of 8
  Random random(seed, "planner bench");
  PlanProblem problem;
  std::vector<double> cost;
  double memory = 0;
  problem.cut_bytes.push_back(150528 * kBytes);
  for (std::size_t k = 0; k < what.layers; ++k) {
    cost.push_back(0.3 * kCost[k % 4] * between(random, .9, 1.1));
    problem.layer_memory_mb.push_back(kMemory[k % 4] * between(random, .95, 1.05));
    problem.cut_bytes.push_back((k + 1 == what.layers ? 1000 : kNumbers[k % 4]) * kBytes);
    memory += problem.layer_memory_mb.back();
  }
  std::size_t all_hosts = 0;
  for (std::size_t u = 0; u < what.types; ++u) {
    HostClass one;
    one.type = format("t{}", u);
    const std::size_t fewest = what.all_hosts ? what.hosts : what.hosts / 2;
    const std::size_t hosts = fewest + random.below(what.hosts - fewest + 1);
    for (std::size_t k = 0; k < hosts; ++k) one.hosts.push_back(format("t{}-{}", u, k));
    all_hosts += hosts;
    const double speed = std::exp2(between(random, -1, 3));
    for (const double seconds : cost) one.layer_time_s.push_back(seconds / speed);
    one.bandwidth_mbps = kBandwidth[random.below(4)];
    one.memory_mb = 1e6;
    problem.classes.push_back(std::move(one));
  }
  if (what.tight_memory) {
    // One to three times the memory of a mean stage, and what the buffers of the largest cut take.
    for (HostClass& one : problem.classes) {
      one.memory_mb = 150 + memory / static_cast<double>(all_hosts) * between(random, 1, 3);
    }
  }
  return problem;
}

// Our time against the dynamic programme's, where that one fits into memory.
bool against_reference(const Draw& what) {
  const PlanProblem problem = draw(what, 1);
  const double start = cpu_seconds();
  PlannerOptions options;
  options.preference = PlanPreference::kNone;
  const PlanOutcome outcome = make_plan(problem, options);
  const double middle = cpu_seconds();
  const double wanted = reference::least_period(problem, {});
  const double end = cpu_seconds();
  if (!outcome.proven || std::abs(outcome.period_s - wanted) > 1e-9 * wanted) {
    std::fprintf(stderr, "the planner gives %.9f s, the dynamic programme %.9f s\n",
                 outcome.period_s, wanted);
    std::exit(2);
  }
  const std::size_t hosts = problem.classes.front().hosts.size();
  return row(format("plan {} layers x {} types x {} hosts", what.layers, what.types, hosts),
             format("{:.4f} s", middle - start), format("{:.3f} s, same period", end - middle),
             (end - middle) / (middle - start), ">= 10");
}

struct Scale {
  std::string name;
  Draw what;
  int seeds = 20;
  bool replicate = false;
  double seconds_limit = 1;
  double gap_limit_percent = 0;  // 0: no bar, all are to be proven
  double proven_share = 1;       // 0: no bar
};

bool at_scale(const Scale& scale, int seeds) {
  double slowest = 0;
  double widest = 0;
  int proven = 0;
  int network_bound = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    const PlanProblem problem = draw(scale.what, static_cast<std::uint64_t>(seed));
    PlannerOptions options;
    options.replicate = scale.replicate;
    const double start = cpu_seconds();
    const PlanOutcome outcome = make_plan(problem, options);
    slowest = std::max(slowest, cpu_seconds() - start);
    widest = std::max(widest, 100 * (outcome.period_s / outcome.lower_bound_s - 1));
    proven += outcome.proven ? 1 : 0;
    const CostModel costs(problem, {});
    for (std::size_t k = 0; k < outcome.placement.size(); ++k) {
      const StageCosts one = stage_costs(costs, outcome.placement, k);
      if (one.period_s < outcome.period_s) continue;
      network_bound += one.compute_s < std::max(one.receive_s, one.send_s) ? 1 : 0;
      break;
    }
  }
  const std::string name =
      format("{}, {} seeds ({} network-bound)", scale.name, seeds, network_bound);
  bool good = row(name + ": slowest", format("{:.3f} s", slowest),
                  format("{} s limit", scale.seconds_limit), slowest / scale.seconds_limit, "<= 1");
  if (scale.gap_limit_percent > 0) {
    good &= row(name + ": widest gap", format("{:.4f} %", widest),
                format("{} % limit", scale.gap_limit_percent), widest / scale.gap_limit_percent,
                "<= 1");
  }
  if (scale.proven_share > 0) {
    good &= row(name + ": proven optimal", format("{}", proven), format("{}", seeds),
                static_cast<double>(proven) / seeds, format(">= {}", scale.proven_share));
  }
  return good;
}

bool memory_row() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double megabytes = static_cast<double>(usage.ru_maxrss) / 1024;
  return row("plan: most memory of all the above", format("{:.0f} MB", megabytes), "500 MB limit",
             megabytes / 500, "<= 1");
}

std::vector<Scale> scales(bool tight) {
  const std::string memory = tight ? " tight memory" : " loose memory";
  return {
      {.name = "plan 500 x 4 types x 32," + memory,
       .what = {.types = 4, .tight_memory = tight},
       .seconds_limit = 0.1},
      {.name = "plan 500 x 8 types x 8," + memory,
       .what = {.hosts = 8, .tight_memory = tight},
       .seconds_limit = 0.5},
      {.name = "plan 500 x 8 types x 32," + memory,
       .what = {.tight_memory = tight},
       .gap_limit_percent = 0.4,
       .proven_share = 0.5},
      {.name = "plan 500 x 8 types x 1250, replicated," + memory,
       .what = {.hosts = 1250, .all_hosts = true, .tight_memory = tight},
       .seeds = 5,
       .replicate = true,
       .seconds_limit = 3,
       .gap_limit_percent = 2,
       .proven_share = 0},
  };
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  std::printf("name | ours | reference | ratio | bar\n");
  bool good = true;
  for (const bool tight : {false, true}) {
    for (const Scale& scale : scales(tight)) good &= at_scale(scale, short_run ? 1 : scale.seeds);
  }
  good &= memory_row();
  // Last, since the dynamic programme takes more memory than the planner may.
  good &= against_reference({.layers = 100, .types = 2, .hosts = 8, .all_hosts = true});
  if (!short_run) {
    good &= against_reference({.layers = 200, .types = 2, .hosts = 16, .all_hosts = true});
    good &= against_reference({.layers = 200, .types = 3, .hosts = 8, .all_hosts = true});
    good &= against_reference({.layers = 100, .types = 4, .hosts = 4, .all_hosts = true});
  }
  return check && !good ? 1 : 0;
}
