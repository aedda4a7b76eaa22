#include <harmonics/plan/report.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <harmonics/base/format.h>
#include <harmonics/plan/machine_load.h>

namespace harmonics::inline in_plan {
namespace {

std::string binding_part(const StageCosts& costs) {
  if (costs.compute_s >= costs.receive_s && costs.compute_s >= costs.send_s) return "compute";
  return costs.receive_s >= costs.send_s ? "receive" : "send";
}

std::string hosts_text(const PlanStage& stage) {
  if (stage.hosts.size() == 1) return stage.hosts.front();
  return format("{} (+{})", stage.hosts.front(), stage.hosts.size() - 1);
}

std::string goal_name(PlanGoal goal) { return goal == PlanGoal::kLatency ? "latency" : "period"; }

std::string stage_table(const PlanReport& report) {
  std::size_t width = 4;
  for (const PlannedStage& one : report.stages) {
    width = std::max(width, hosts_text(one.stage).size());
  }
  std::string text =
      format("  {:>5}  {:<{}}  {:>11}  {:>11}  {:>11}  {:>11}  {:>21}  {}\n", "stage", "host",
             width, "layers", "compute s", "receive s", "send s", "memory MB", "binds");
  for (std::size_t k = 0; k < report.stages.size(); ++k) {
    const PlannedStage& one = report.stages[k];
    const std::string layers = format("{}-{}", one.stage.first_layer, one.stage.last_layer);
    const std::string memory =
        format("{:.1f} of {:.1f}", one.costs.memory_bytes / kBytesPerMegabyte,
               one.costs.capacity_bytes / kBytesPerMegabyte);
    text += format("  {:>5}  {:<{}}  {:>11}  {:>11.6f}  {:>11.6f}  {:>11.6f}  {:>21}  {}{}\n",
                   k + 1, hosts_text(one.stage), width, layers, one.costs.compute_s,
                   one.costs.receive_s, one.costs.send_s, memory, one.binds,
                   k == report.slowest_stage ? "  <- slowest" : "");
  }
  return text;
}

std::string rate_text(double seconds_per_sample) {
  if (!(seconds_per_sample > 0)) return "no time measured for a sample";
  return format("{:.3f} samples/s", 1 / seconds_per_sample);
}

std::string bound_text(const PlanReport& report) {
  const double objective = report.outcome.objective_s(report.options.goal);
  std::string text = format("{} {:.6f} s, lower bound {:.6f} s: ", goal_name(report.options.goal),
                            objective, report.outcome.lower_bound_s);
  const PlanOutcome& outcome = report.outcome;
  if (outcome.proven) return text + "proven optimal\n";
  if (outcome.least_s < objective) {
    return text +
           format("slower by {:.4f} %, as the {}, than {:.6f} s{}\n",
                  100 * (objective / outcome.least_s - 1),
                  report.options.tolerance > 0 ? "tolerance allows" : "aim asks", outcome.least_s,
                  outcome.least_proven ? ", which is proven optimal" : ", the best that was found");
  }
  if (!std::isfinite(report.gap())) {
    return text + "how far the best plan is from it was not found out; --work allows more\n";
  }
  return text + format("within {:.4f} % of the best plan\n", 100 * report.gap());
}

std::string proof_text(const PlanReport& report) {
  if (!report.outcome.proof) return "";
  std::string text =
      format("certificate: no plan has a period of {:.9f} s or less; prices per host:",
             report.outcome.proof->period_s);
  for (std::size_t u = 0; u < report.classes.size(); ++u) {
    text += format(" {} {:.9g}", report.classes[u].type, report.outcome.proof->price[u]);
  }
  if (!report.outcome.proof->shares.empty()) {
    text += format("; and {} prices on shares of hosts (the JSON report has them)",
                   report.outcome.proof->shares.size());
  }
  return text + "\n";
}

std::string fallback_text(const FallbackPlan& fallback) {
  std::string text = format("without {} ({}): ", fallback.lost_host, fallback.type);
  if (!fallback.plan) return text + fallback.reason + "\n";
  text += format("period {:.6f} s{}, {:.1f} MB to move\n", fallback.period_s,
                 fallback.proven ? " (proven optimal)" : "", fallback.moved_mb);
  for (const PlanStage& stage : fallback.plan->stages) {
    for (const std::string& host : stage.hosts) {
      text += format("  - {}: [{}, {}]\n", host, stage.first_layer, stage.last_layer);
    }
  }
  return text;
}

std::string replan_text(const ReplanOutcome& replan) {
  if (replan.stays) return "re-planning: the current plan stays; moving would not pay\n";
  return format("re-planning: {:.1f} MB to move in {:.3f} s; {:.3f} s in all\n", replan.moved_mb,
                replan.migration_s, replan.total_s);
}

// A stage is no faster than the cores of its machine let all stages there be.
void add_machine(PlannedStage& stage, const SharedMachine& machine, double load_s) {
  stage.machine = machine.name;
  stage.machine_s = load_s;
  if (load_s <= stage.costs.period_s) return;
  stage.costs.period_s = load_s;
  stage.binds = "cores";
}

// A batch that is sent is answered when the next stage is done with it: until then it takes the
// transfer, the way there and back, and the next stage's compute.
std::size_t needed_in_flight(const PlanReport& report, const PlanOutcome& outcome) {
  constexpr double kLeastShare = 2;
  double share = kLeastShare;
  for (std::size_t k = 0; k + 1 < report.stages.size() && outcome.period_s > 0; ++k) {
    const StageCosts& sender = report.stages[k].costs;
    const double answered_s =
        sender.transfer_s + sender.latency_s + report.stages[k + 1].costs.compute_s;
    share = std::max(share, std::ceil(answered_s / outcome.period_s));
  }
  const auto all = static_cast<std::size_t>(share) * report.stages.size();
  return all > 2 * report.stages.size() ? all : 0;
}

}  // namespace

double PlanReport::gap() const {
  const double objective = outcome.objective_s(options.goal);
  if (outcome.proven || objective <= outcome.lower_bound_s) return 0;
  return outcome.lower_bound_s > 0 ? objective / outcome.lower_bound_s - 1
                                   : std::numeric_limits<double>::infinity();
}

PlanReport make_report(const PlanProblem& problem, const PlannerOptions& options,
                       PlanOutcome outcome, const Plan& plan) {
  PlanReport report;
  report.model = problem.model;
  report.dtype = problem.dtype;
  report.batch_size = problem.batch_size;
  report.options = options;
  for (const HostClass& one : problem.classes) {
    report.classes.push_back({one.type, one.hosts.size(), 0});
  }
  const CostModel costs(problem, options.costs);
  const std::vector<double> loads = machine_loads_s(problem, costs, outcome.placement);
  for (std::size_t k = 0; k < outcome.placement.size(); ++k) {
    const PlacedStage& placed = outcome.placement[k];
    const StageCosts stage = stage_costs(costs, outcome.placement, k);
    report.classes[placed.host_class].used += placed.hosts;
    report.stages.push_back(
        {plan.stages[k], problem.classes[placed.host_class].type, stage, binding_part(stage)});
    if (const SharedMachine* machine = machine_of(problem, placed.host_class)) {
      add_machine(report.stages.back(), *machine,
                  loads[static_cast<std::size_t>(machine - problem.machines.data())]);
    }
    if (report.stages.back().costs.period_s > report.stages[report.slowest_stage].costs.period_s) {
      report.slowest_stage = k;
    }
  }
  report.noise = noisy_cuts(problem, options.costs, outcome.placement);
  if (!problem.link_latency_s.empty()) report.in_flight = needed_in_flight(report, outcome);
  report.outcome = std::move(outcome);
  return report;
}

void add_training(PlanReport& report, const PlanProblem& problem, const TrainingWish& wish) {
  report.training = plan_training(problem, report.options.costs, report.outcome.placement, wish);
  for (std::size_t k = 0; k < report.stages.size(); ++k) {
    PlannedStage& stage = report.stages[k];
    const TrainedStage& trained = report.training->stages[k];
    stage.costs.memory_bytes = trained.memory_bytes;
    if (trained.memory_bytes < stage.costs.capacity_bytes) continue;
    throw NoFeasiblePlan(
        format("memory: learning in {} order, {} holds {} micro-batches at once, {:.1f} MB with "
               "layers {}-{}, and has {:.1f} MB: take fewer or smaller micro-batches{}",
               pipeline_order_name(wish.order), hosts_text(stage.stage), trained.in_flight,
               trained.memory_bytes / kBytesPerMegabyte, stage.stage.first_layer,
               stage.stage.last_layer, stage.costs.capacity_bytes / kBytesPerMegabyte,
               wish.order == PipelineOrder::GPipe ? ", or 1f1b order" : ""));
  }
}

std::string report_to_text(const PlanReport& report) {
  std::string text =
      format("plan for {} ({}, batch size {})\n", report.model, report.dtype, report.batch_size);
  if (report.stages.empty()) return text + "the model has no layers\n";
  text += bound_text(report);
  text += format("{}, latency {:.6f} s, {} hosts in {} stages\n",
                 rate_text(report.outcome.period_s / static_cast<double>(report.batch_size)),
                 report.outcome.latency_s, report.outcome.hosts, report.stages.size());
  text += stage_table(report);
  const PlannedStage& slowest = report.stages[report.slowest_stage];
  text += format("the {} of stage {} ({}) binds\n", slowest.binds, report.slowest_stage + 1,
                 hosts_text(slowest.stage));
  if (report.training) text += training_to_text(*report.training, report.batch_size);
  text += noise_to_text(report.noise);
  text += proof_text(report);
  text += format("planned in {:.3f} CPU s ({} steps of work)\n", report.plan_seconds,
                 report.outcome.work);
  for (const TriedProfile& one : report.tried) {
    if (report.tried.size() == 1) break;
    text += format("tried batch size {} {}: {}\n", one.key.batch_size, one.key.dtype,
                   one.feasible ? format("{}, latency {:.6f} s", rate_text(one.seconds_per_sample),
                                         one.latency_s)
                                : "no plan");
  }
  if (report.replan) text += replan_text(*report.replan);
  if (report.replan || !report.changes.empty()) text += difference_to_text(report.changes);
  for (const FallbackPlan& one : report.fallbacks) text += fallback_text(one);
  return text;
}

}  // namespace harmonics::inline in_plan
