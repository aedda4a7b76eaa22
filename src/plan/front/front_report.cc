#include <algorithm>
#include <cmath>

#include <harmonics/base/format.h>
#include <harmonics/plan/front.h>

namespace harmonics::inline in_plan {
namespace {

constexpr double kThousand = 1000;  // costs are given for so many samples

bool has_aim(const PlanFront& front, PlanAim aim) {
  return std::ranges::find(front.aims, aim) != front.aims.end();
}

// In which figures no plan of the front is better.
std::vector<PlanAim> best_aims(const PlanFront& front, const AimedPlan& plan) {
  std::vector<PlanAim> aims;
  for (const PlanAim aim : front.aims) {
    const bool least = std::ranges::all_of(front.plans, [&](const AimedPlan& other) {
      return plan.value(aim) <= other.value(aim) * (1 + 1e-9);
    });
    if (least) aims.push_back(aim);
  }
  return aims;
}

std::string best_text(const PlanFront& front, const AimedPlan& plan) {
  std::string text;
  for (const PlanAim aim : best_aims(front, plan)) {
    if (!text.empty()) text += ' ';
    text += plan_aim_name(aim);
  }
  return text.empty() ? "-" : text;
}

Json stages_of(const PlanProblem& problem, const AimedPlan& plan) {
  Json stages = Json::array();
  const Plan named = name_hosts(problem, plan.placement);
  for (std::size_t k = 0; k < named.stages.size(); ++k) {
    Json hosts = Json::array();
    for (const std::string& host : named.stages[k].hosts) hosts.push(host);
    Json layers = Json::array();
    layers.push(static_cast<std::uint64_t>(named.stages[k].first_layer));
    layers.push(static_cast<std::uint64_t>(named.stages[k].last_layer));
    stages.push(Json::object()
                    .set("hosts", std::move(hosts))
                    .set("type", problem.classes[plan.placement[k].host_class].type)
                    .set("layers", std::move(layers)));
  }
  return stages;
}

}  // namespace

std::string front_to_text(const PlanProblem& problem, const PlanFront& front) {
  const bool cost = has_aim(front, PlanAim::kCost);
  const bool energy = has_aim(front, PlanAim::kEnergy);
  std::string text =
      format("{}: {} plans, of which none is better in everything ({}, batch size {})\n",
             problem.model, front.plans.size(), problem.dtype, problem.batch_size);
  text += format("{:>4}  {:>12}  {:>11}  {:>12}  {:>5}", "plan", "period s", "samples/s",
                 "latency s", "hosts");
  if (cost) text += format("  {:>14}", "cost/1000");
  if (energy) text += format("  {:>14}", "joules/sample");
  text += "  best in / what binds\n";
  for (std::size_t k = 0; k < front.plans.size(); ++k) {
    const AimedPlan& plan = front.plans[k];
    text +=
        format("{:>4}  {:>12.6f}  {:>11.4g}  {:>12.6f}  {:>5}", k + 1, plan.period_s,
               static_cast<double>(problem.batch_size) / plan.period_s, plan.latency_s, plan.hosts);
    if (cost) text += format("  {:>14.6g}", kThousand * plan.cost_per_sample);
    if (energy) text += format("  {:>14.6g}", plan.joules_per_sample);
    text += format("  {} / {}\n", best_text(front, plan), plan.binds);
  }
  return text + format("no plan has a shorter period than {:.6f} s\n", front.least_period_s);
}

Json front_to_json(const PlanProblem& problem, const PlanFront& front) {
  Json aims = Json::array();
  for (const PlanAim aim : front.aims) aims.push(plan_aim_name(aim));
  Json plans = Json::array();
  for (const AimedPlan& plan : front.plans) {
    Json best = Json::array();
    for (const PlanAim aim : best_aims(front, plan)) best.push(plan_aim_name(aim));
    Json one = Json::object();
    one.set("period_s", plan.period_s)
        .set("samples_per_s", static_cast<double>(problem.batch_size) / plan.period_s)
        .set("latency_s", plan.latency_s)
        .set("hosts", static_cast<std::uint64_t>(plan.hosts));
    if (has_aim(front, PlanAim::kCost)) one.set("cost_per_sample", plan.cost_per_sample);
    if (has_aim(front, PlanAim::kEnergy)) one.set("joules_per_sample", plan.joules_per_sample);
    one.set("best_in", std::move(best)).set("binds", plan.binds);
    plans.push(std::move(one.set("stages", stages_of(problem, plan))));
  }
  return Json::object()
      .set("model", problem.model)
      .set("dtype", problem.dtype)
      .set("batch_size", problem.batch_size)
      .set("aims", std::move(aims))
      .set("least_period_s", front.least_period_s)
      .set("least_proven", front.least_proven)
      .set("front", std::move(plans));
}

std::string aim_to_text(const AimOutcome& outcome, double deadline_s) {
  const AimedPlan& plan = outcome.plan;
  const double value = plan.value(outcome.aim);
  std::string text = format("aim {}: {:.9g}, lower bound {:.9g}: ", plan_aim_name(outcome.aim),
                            value, outcome.lower_bound);
  text += outcome.proven            ? "proven optimal\n"
          : outcome.lower_bound > 0 ? format("at most {:.3f} % are to be gained\n",
                                             100 * (1 - outcome.lower_bound / value))
                                    : "no bound was found\n";
  if (std::isfinite(deadline_s)) {
    text += format("deadline {:.6f} s, the way from end to end takes {:.6f} s\n", deadline_s,
                   plan.latency_s);
  }
  if (plan.cost_per_sample > 0) {
    text += format("1000 samples cost {:.6g}\n", kThousand * plan.cost_per_sample);
  }
  if (plan.joules_per_sample > 0) {
    text += format("a sample takes {:.6g} joules\n", plan.joules_per_sample);
  }
  return text + format("what binds: {}\n", plan.binds);
}

Json aim_to_json(const AimOutcome& outcome, double deadline_s) {
  const AimedPlan& plan = outcome.plan;
  Json json = Json::object();
  json.set("aim", plan_aim_name(outcome.aim))
      .set("value", plan.value(outcome.aim))
      .set("lower_bound", outcome.lower_bound)
      .set("proven", outcome.proven)
      .set("deadline_s", std::isfinite(deadline_s) ? Json(deadline_s) : Json())
      .set("latency_s", plan.latency_s);
  if (plan.cost_per_sample > 0) json.set("cost_per_sample", plan.cost_per_sample);
  if (plan.joules_per_sample > 0) json.set("joules_per_sample", plan.joules_per_sample);
  return json.set("binds", plan.binds);
}

}  // namespace harmonics::inline in_plan
