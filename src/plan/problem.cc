#include <harmonics/plan/problem.h>

#include <cmath>
#include <span>
#include <string_view>

#include <harmonics/base/error.h>

namespace harmonics::inline in_plan {
namespace {

void check_numbers(std::span<const double> values, std::size_t wanted, std::string_view what) {
  if (values.size() != wanted) {
    fail(ErrorCode::kInvalidArgument, "{}: {} values, but {} are needed", what, values.size(),
         wanted);
  }
  for (const double value : values) {
    if (!std::isfinite(value) || value < 0) {
      fail(ErrorCode::kInvalidArgument, "{}: {} is not a finite number of 0 or more", what, value);
    }
  }
}

void check_class(const HostClass& hosts, std::size_t layers) {
  check_numbers(hosts.layer_time_s, layers, format("layer times of '{}'", hosts.type));
  for (const auto* known : {&hosts.forward_time_s, &hosts.time_spread}) {
    check_numbers(*known, known->empty() ? 0 : layers,
                  format("forward times and spreads of '{}'", hosts.type));
  }
  check_numbers(std::vector{hosts.bandwidth_mbps, hosts.memory_mb, hosts.cores,
                            hosts.price_per_hour, hosts.watts},
                5, format("bandwidth, memory, cores, price and watts of '{}'", hosts.type));
  if (!hosts.barred.empty() && hosts.barred.size() != layers) {
    fail(ErrorCode::kInvalidArgument, "barred layers of '{}': {} values, but {} are needed",
         hosts.type, hosts.barred.size(), layers);
  }
}

void check_order(const PlanProblem& problem) {
  std::vector<bool> seen(problem.classes.size());
  for (const std::size_t u : problem.order) {
    if (u >= seen.size() || seen[u] || problem.classes[u].hosts.size() != 1) {
      fail(ErrorCode::kInvalidArgument,
           "a host order names every class at most once, and each with a single host");
    }
    seen[u] = true;
  }
}

void check_machines(const PlanProblem& problem) {
  std::vector<bool> seen(problem.classes.size());
  for (const SharedMachine& machine : problem.machines) {
    bool good = std::isfinite(machine.cores) && machine.cores > 0;
    for (const std::size_t u : machine.classes) {
      good = good && u < seen.size() && !seen[u] && problem.classes[u].hosts.size() <= 1;
      if (good) seen[u] = true;
    }
    if (good) continue;
    fail(ErrorCode::kInvalidArgument,
         "machine '{}': a machine has cores, and its hosts are classes of their own, each on one "
         "machine",
         machine.name);
  }
}

}  // namespace

void check_problem(const PlanProblem& problem) {
  const std::size_t layers = problem.layers();
  if (layers > kMaxPlanLayers) {
    fail(ErrorCode::kResourceExhausted, "{} layers, at most {} can be planned: group layers",
         layers, kMaxPlanLayers);
  }
  if (problem.classes.size() > kMaxHostClasses) {
    fail(ErrorCode::kResourceExhausted, "{} kinds of hosts, at most {} can be planned",
         problem.classes.size(), kMaxHostClasses);
  }
  check_numbers(problem.layer_memory_mb, layers, "layer memory");
  check_numbers(problem.cut_bytes, layers + 1, "bytes at the cuts");
  check_numbers(problem.tied_bytes, problem.tied_bytes.empty() ? 0 : layers + 1,
                "bytes of tied parameters");
  for (const auto* known :
       {&problem.training.fixed_mb, &problem.training.kept_mb, &problem.training.scratch_mb}) {
    check_numbers(*known, problem.training.known() ? layers : 0, "memory of training");
  }
  std::size_t hosts = 0;
  for (const HostClass& one : problem.classes) {
    check_class(one, layers);
    hosts += one.hosts.size();
  }
  if (hosts > kMaxPlanHosts) {
    fail(ErrorCode::kResourceExhausted, "{} hosts, at most {} can be planned", hosts,
         kMaxPlanHosts);
  }
  const std::size_t pairs = problem.classes.size() * problem.classes.size();
  check_numbers(problem.link_mbps, problem.link_mbps.empty() ? 0 : pairs, "link bandwidths");
  check_numbers(problem.link_latency_s, problem.link_latency_s.empty() ? 0 : pairs,
                "link latencies");
  check_order(problem);
  check_machines(problem);
}

}  // namespace harmonics::inline in_plan
