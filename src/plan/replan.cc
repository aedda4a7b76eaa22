#include <harmonics/plan/replan.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <harmonics/plan/machine_load.h>

#include "host_match.h"
#include "plan_builder.h"
#include "search/weight_search.h"

namespace harmonics::inline in_plan {
namespace {

// Periods between the best and the current one that are weighed.
constexpr int kPeriodsToWeigh = 12;

// Layers as a pair of cuts; first == last: none.
struct CutRange {
  std::size_t first = 0;
  std::size_t last = 0;
};

// What the hosts of a plan hold, and how much of a stage that saves.
class HeldLayers {
 public:
  HeldLayers(const PlanProblem& problem, const Plan& plan) {
    memory_before_.push_back(0);
    for (const double mb : problem.layer_memory_mb) {
      memory_before_.push_back(memory_before_.back() + mb);
    }
    std::map<std::string, CutRange> ranges;
    for (const PlanStage& stage : plan.stages) {
      for (const std::string& host : stage.hosts) {
        ranges[host] = {std::min(stage.first_layer - 1, problem.layers()),
                        std::min(stage.last_layer, problem.layers())};
      }
    }
    for (const HostClass& one : problem.classes) {
      std::vector<CutRange>& held = held_.emplace_back();
      for (const std::string& host : one.hosts) held.push_back(ranges[host]);
    }
  }

  double memory_mb(std::size_t i, std::size_t j) const {
    return memory_before_[j] - memory_before_[i];
  }
  // What the host of a class holds of a stage.
  double kept_mb(std::size_t u, std::size_t host, std::size_t i, std::size_t j) const {
    const CutRange& range = held_[u][host];
    const std::size_t first = std::max(i, range.first);
    const std::size_t last = std::min(j, range.last);
    return first < last ? memory_mb(first, last) : 0;
  }
  // What must be moved when the stage goes to the hosts of the class that hold most of it.
  double least_moved_mb(std::size_t u, std::size_t i, std::size_t j, std::size_t hosts) const {
    double most = 0;
    for (std::size_t host = 0; host < held_[u].size(); ++host) {
      most = std::max(most, kept_mb(u, host, i, j));
    }
    return (memory_mb(i, j) - most) * static_cast<double>(hosts);
  }

 private:
  std::vector<double> memory_before_;
  std::vector<std::vector<CutRange>> held_;  // [class][host]
};

void remove_host(PlanProblem& problem, const std::string& name) {
  for (std::size_t u = 0; u < problem.classes.size(); ++u) {
    std::vector<std::string>& hosts = problem.classes[u].hosts;
    if (std::erase(hosts, name) > 0 && hosts.empty()) std::erase(problem.order, u);
  }
}

// The last host of a type that a plan uses; the last one there is when it uses none.
std::string last_used_host(const PlanProblem& problem, const Plan& plan, const std::string& type) {
  std::string last;
  bool used = false;
  for (const HostClass& one : problem.classes) {
    if (one.type != type) continue;
    for (const std::string& host : one.hosts) {
      const bool here = std::ranges::any_of(plan.stages, [&](const PlanStage& stage) {
        return std::ranges::find(stage.hosts, host) != stage.hosts.end();
      });
      if (here || !used) last = host;
      used |= here;
    }
  }
  return last;
}

// Weighs periods against what must be moved; see replan.
class Replanner {
 public:
  Replanner(const PlanProblem& problem, const PlannerOptions& options, const Plan& current,
            const MigrationCost& cost)
      : problem_(problem),
        options_(options),
        current_(current),
        cost_(cost),
        costs_(problem, options.costs),
        builder_(builder_for(problem, costs_, options.replicate)),
        held_(problem, current) {}

  ReplanOutcome run() {
    const PlanOutcome ideal = make_plan(problem_, options_);
    consider(ideal.placement, name_hosts_near(problem_, ideal.placement, current_));
    const double slowest = consider_current(2 * ideal.period_s);
    for (int k = 0; k <= kPeriodsToWeigh; ++k) {
      const double share = static_cast<double>(k) / kPeriodsToWeigh;
      weigh(ideal, ideal.period_s * std::pow(slowest / ideal.period_s, share));
    }
    best_.outcome.lower_bound_s = ideal.lower_bound_s;
    best_.outcome.proof = ideal.proof;
    best_.outcome.least_s = std::min(ideal.least_s, best_.outcome.period_s);
    best_.outcome.least_proven = ideal.least_proven;
    best_.outcome.proven = ideal.proven && best_.outcome.period_s <= ideal.period_s;
    best_.stays = best_.plan == current_;
    return std::move(best_);
  }

 private:
  void consider(const Placement& placement, Plan plan) {
    ReplanOutcome one;
    one.moved_mb = moved_megabytes(problem_.layer_memory_mb, current_, plan);
    one.plan = std::move(plan);
    one.outcome.placement = placement;
    one.outcome.period_s = shared_period_of(problem_, costs_, placement);
    one.outcome.latency_s = latency_of(costs_, placement);
    for (const PlacedStage& stage : placement) one.outcome.hosts += stage.hosts;
    one.migration_s = one.moved_mb * cost_.seconds_per_mb;
    one.total_s = cost_.horizon_batches * one.outcome.period_s + one.migration_s;
    if (best_.plan.stages.empty() || one.total_s < best_.total_s) best_ = std::move(one);
  }

  // Considers to stay, if that is possible; gives the largest period worth weighing.
  double consider_current(double otherwise_s) {
    Placement placement;
    try {
      placement = place_plan(problem_, current_);
    } catch (const Error&) {
      return otherwise_s;
    }
    auto next = problem_.order.begin();
    for (const PlacedStage& stage : placement) {
      if (!costs_.allowed(stage.host_class, stage.first_cut, stage.last_cut)) return otherwise_s;
      if (stage.hosts > 1 && !options_.replicate) return otherwise_s;
      if (problem_.order.empty()) continue;
      next = std::find(next, problem_.order.end(), stage.host_class);
      if (next == problem_.order.end()) return otherwise_s;
      ++next;
    }
    const double period = shared_period_of(problem_, costs_, placement);
    if (!std::isfinite(period)) return otherwise_s;
    consider(placement, current_);
    return period;
  }

  void weigh(const PlanOutcome& ideal, double period_s) {
    WeightSearchQuestion question{
        builder_,
        {.period_s = std::max(period_s, ideal.period_s),
         .replicate = options_.replicate,
         .only_best = false},
        [this](const StageGraph& graph, std::size_t from, const StageArc& arc) {
          if (arc.host_class == kNoHostClass) return 0.0;
          const auto i = static_cast<std::size_t>(graph.cut[from]);
          const auto j = static_cast<std::size_t>(graph.cut[static_cast<std::size_t>(arc.to)]);
          return held_.least_moved_mb(arc.host_class, i, j, arc.hosts);
        },
        ideal.placement,
        0};
    for (const PlacedStage& stage : ideal.placement) {
      question.known_weight +=
          held_.least_moved_mb(stage.host_class, stage.first_cut, stage.last_cut, stage.hosts);
    }
    WorkBudget budget((options_.work > 0 ? options_.work : kDefaultPlanWork) / kPeriodsToWeigh);
    const WeightSearchResult found = find_least_weight(question, budget);
    consider(found.placement, name_hosts_near(problem_, found.placement, current_));
  }

  const PlanProblem& problem_;
  const PlannerOptions& options_;
  const Plan& current_;
  const MigrationCost& cost_;
  const CostModel costs_;
  const StageGraphBuilder builder_;
  const HeldLayers held_;
  ReplanOutcome best_;
};

/// What each host of class `u` would keep of the stage.
std::vector<double> kept_by_hosts(const PlanProblem& problem, const HeldLayers& held,
                                  const PlacedStage& stage) {
  std::vector<double> kept;
  for (std::size_t host = 0; host < problem.classes[stage.host_class].hosts.size(); ++host) {
    kept.push_back(held.kept_mb(stage.host_class, host, stage.first_cut, stage.last_cut));
  }
  return kept;
}

}  // namespace

Plan name_hosts_near(const PlanProblem& problem, std::span<const PlacedStage> placement,
                     const Plan& before) {
  const HeldLayers held(problem, before);
  Plan plan;
  for (const PlacedStage& stage : placement) {
    plan.stages.push_back({{}, stage.first_cut + 1, stage.last_cut});
  }
  for (std::size_t u = 0; u < problem.classes.size(); ++u) {
    std::vector<std::vector<double>> worth;
    std::vector<std::size_t> stage_of_slot;
    for (std::size_t k = 0; k < placement.size(); ++k) {
      if (placement[k].host_class != u) continue;
      const std::vector<double> kept = kept_by_hosts(problem, held, placement[k]);
      worth.insert(worth.end(), placement[k].hosts, kept);
      stage_of_slot.insert(stage_of_slot.end(), placement[k].hosts, k);
    }
    const std::vector<std::size_t> host_of_slot = match_hosts(worth);
    for (std::size_t slot = 0; slot < host_of_slot.size(); ++slot) {
      plan.stages[stage_of_slot[slot]].hosts.push_back(
          problem.classes[u].hosts[host_of_slot[slot]]);
    }
  }
  return plan;
}

std::vector<FallbackPlan> plan_fallbacks(const PlanProblem& problem, const PlannerOptions& options,
                                         const Plan& plan) {
  std::vector<std::string> types;
  for (const HostClass& one : problem.classes) {
    if (!one.hosts.empty() && std::ranges::find(types, one.type) == types.end()) {
      types.push_back(one.type);
    }
  }
  std::vector<FallbackPlan> fallbacks;
  for (const std::string& type : types) {
    FallbackPlan fallback{type, last_used_host(problem, plan, type), {}, {}, 0, false, 0};
    PlanProblem without = problem;
    remove_host(without, fallback.lost_host);
    try {
      const PlanOutcome outcome = make_plan(without, options);
      fallback.plan = name_hosts_near(without, outcome.placement, plan);
      fallback.period_s = outcome.period_s;
      fallback.proven = outcome.proven;
      fallback.moved_mb = moved_megabytes(problem.layer_memory_mb, plan, *fallback.plan);
    } catch (const NoFeasiblePlan& error) {
      fallback.reason = error.what();
    }
    fallbacks.push_back(std::move(fallback));
  }
  return fallbacks;
}

ReplanOutcome replan(const PlanProblem& problem, const PlannerOptions& options, const Plan& current,
                     const MigrationCost& cost) {
  if (!(cost.seconds_per_mb >= 0) || !(cost.horizon_batches > 0)) {
    fail(ErrorCode::kInvalidArgument,
         "a migration cost of {} s/MB over {} micro-batches makes no sense: 0 or more over more "
         "than 0",
         cost.seconds_per_mb, cost.horizon_batches);
  }
  if (problem.layers() == 0) return {};
  return Replanner(problem, options, current, cost).run();
}

}  // namespace harmonics::inline in_plan
