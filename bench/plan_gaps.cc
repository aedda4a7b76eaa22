// How far plans can be from the best one where hosts are of many kinds, stand at several sites,
// share stages or are ten thousand: the certified gap and CPU seconds, over drawn problems whose
// times differ by up to 10 % per type and layer from what the type's speed says.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/base/number_text.h>
#include <harmonics/base/random.h>
#include <harmonics/plan/planner.h>

#include "rounds.h"

namespace {

using namespace harmonics;
using bench::row;

struct Case {
  std::string name;
  std::size_t layers = 500;
  std::size_t types = 8;
  std::size_t hosts = 32;  // per type
  std::size_t sites = 1;
  bool slow_network = false;
  PlannerOptions options = {};
  double gap_limit_percent = 1;
  /// Never worse than the same without replication.
  bool compare_single = false;
};

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double between(Random& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random.uniform());
}

// Hosts of a type are spread over the sites, each of which is a class of its own.
void add_type(const Case& what, std::size_t type, const std::vector<double>& cost, Random& random,
              PlanProblem& problem) {
  constexpr double kFast[] = {1000, 2500, 5000, 10000};
  constexpr double kSlow[] = {25, 50, 100, 250};
  HostClass one;
  one.type = format("t{}", type);
  one.bandwidth_mbps = (what.slow_network ? kSlow : kFast)[random.below(4)];
  one.memory_mb = 1e6;
  const double speed = std::exp2(between(random, -1, 3));
  for (const double seconds : cost) {
    one.layer_time_s.push_back(seconds / speed * between(random, .9, 1.1));
  }
  for (std::size_t site = 0; site < what.sites; ++site) {
    one.hosts.clear();
    for (std::size_t k = site; k < what.hosts; k += what.sites) {
      one.hosts.push_back(format("t{}-{}", type, k));
    }
    if (!one.hosts.empty()) problem.classes.push_back(one);
  }
}

PlanProblem draw(const Case& what, std::uint64_t seed) {
  constexpr double kCost[] = {1, .25, 1.05, .9};
  constexpr double kNumbers[] = {302592, 302592, 756480, 151296};
  constexpr double kBytes = 4 * 8;  // of a number, in a batch of 8
  constexpr double kBetweenSitesMbps = 500;
  Random random(seed, "plan gaps");
  PlanProblem problem;
  std::vector<double> cost;
  problem.cut_bytes.push_back(150528 * kBytes);
  for (std::size_t k = 0; k < what.layers; ++k) {
    cost.push_back(0.3 * kCost[k % 4] * between(random, .9, 1.1));
    problem.layer_memory_mb.push_back(25);
    problem.cut_bytes.push_back((k + 1 == what.layers ? 1000 : kNumbers[k % 4]) * kBytes);
  }
  for (std::size_t type = 0; type < what.types; ++type) add_type(what, type, cost, random, problem);
  if (what.sites == 1) return problem;
  for (std::size_t u = 0; u < problem.classes.size(); ++u) {
    for (std::size_t v = 0; v < problem.classes.size(); ++v) {
      problem.link_mbps.push_back(u % what.sites == v % what.sites ? 10000 : kBetweenSitesMbps);
    }
  }
  return problem;
}

bool look_at(const Case& what, int seeds, bool each) {
  double slowest = 0, widest = 0, sum = 0;
  bool never_worse = true;
  for (int seed = 1; seed <= seeds; ++seed) {
    const PlanProblem problem = draw(what, static_cast<std::uint64_t>(seed));
    const double start = cpu_seconds();
    const PlanOutcome outcome = make_plan(problem, what.options);
    const double seconds = cpu_seconds() - start;
    slowest = std::max(slowest, seconds);
    const double value = outcome.objective_s(what.options.goal);
    const double gap = 100 * (value / outcome.lower_bound_s - 1);
    widest = std::max(widest, gap);
    sum += gap;
    if (each) {
      std::printf("# %s, seed %d: %.6f s, at least %.6f s, %.3f %%, %.2f CPU s\n",
                  what.name.c_str(), seed, value, outcome.lower_bound_s, gap, seconds);
      std::fflush(stdout);
    }
    if (!what.compare_single) continue;
    PlannerOptions single = what.options;
    single.replicate = false;
    never_worse &= value <= make_plan(problem, single).period_s * (1 + 1e-9);
  }
  if (!never_worse) std::printf("%s: worse than without replication\n", what.name.c_str());
  const bool good =
      row(format("{}, {} seeds: widest gap (mean {:.3f} %)", what.name, seeds, sum / seeds),
          format("{:.3f} %", widest), format("{} % limit", what.gap_limit_percent),
          widest / what.gap_limit_percent, "<= 1");
  return row(format("{}: slowest", what.name), format("{:.2f} CPU s", slowest), "3 CPU s limit",
             slowest / 3, "<= 1") &&
         good && never_worse;
}

std::vector<Case> cases(bool short_run) {
  PlannerOptions replicate;
  replicate.replicate = true;
  PlannerOptions replicated_sum = replicate;
  replicated_sum.costs.overlap = Overlap::kNone;
  PlannerOptions latency;
  latency.goal = PlanGoal::kLatency;
  std::vector<Case> all = {
      {.name = "gap 500 x 256 kinds x 1", .types = 256, .hosts = 1, .gap_limit_percent = 5},
      {.name = "gap 500 x 64 kinds x 1", .types = 64, .hosts = 1, .gap_limit_percent = 1},
      {.name = "gap 500 x 8 x 32, 4 sites", .sites = 4, .gap_limit_percent = 5},
      {.name = "gap 48 x 8 x 16, replicated",
       .layers = 48,
       .hosts = 16,
       .options = replicate,
       .gap_limit_percent = 2},
      {.name = "gap 500 x 8 x 32, latency", .options = latency, .gap_limit_percent = 5},
      {.name = "gap 500 x 8 x 32, replicated sum",
       .options = replicated_sum,
       .gap_limit_percent = 5,
       .compare_single = true},
  };
  if (short_run) return all;  // ten thousand hosts are in planner_bench too
  for (const bool slow : {false, true}) {
    for (const std::size_t layers : {48, 96, 500}) {
      all.push_back({.name = format("gap {} x 8 x 1250, {}", layers, slow ? "slow" : "fast"),
                     .layers = layers,
                     .hosts = 1250,
                     .slow_network = slow,
                     .options = replicate,
                     .gap_limit_percent = 2});
    }
    all.push_back({.name = format("gap 500 x 20 x 500, {}", slow ? "slow" : "fast"),
                   .types = 20,
                   .hosts = 500,
                   .slow_network = slow,
                   .options = replicate,
                   .gap_limit_percent = 2});
  }
  return all;
}

}  // namespace

// plan_gaps [--short] [--check] [--each] [--seeds N] [--only TEXT]; --each prints every seed too
int main(int argc, char** argv) {
  const bool check = bench::has_flag(argc, argv, "--check");
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool each = bench::has_flag(argc, argv, "--each");
  int seeds = short_run ? 1 : 20;
  std::string only;
  for (int k = 1; k + 1 < argc; ++k) {
    if (std::string_view(argv[k]) == "--seeds") {
      seeds = number_from<int>(argv[k + 1]).value_or(seeds);
    }
    if (std::string_view(argv[k]) == "--only") only = argv[k + 1];
  }
  std::printf("name | ours | reference | ratio | bar\n");
  bool good = true;
  for (const Case& what : cases(short_run)) {
    if (what.name.find(only) == std::string::npos) continue;
    good &= look_at(what, seeds, each);
    std::fflush(stdout);
  }
  return check && !good ? 1 : 0;
}
