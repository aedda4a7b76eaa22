#include <algorithm>
#include <string_view>

#include <harmonics/base/format.h>
#include <harmonics/plan/pipelines.h>

namespace harmonics::inline in_plan {
namespace {

double samples(const PlanProblem& problem, double rate) {
  return rate * static_cast<double>(problem.batch_size);
}

std::string shape_words(const PipelinesOutcome& outcome) {
  switch (outcome.shape) {
    case PipelineShape::kRow: return "one row of stages";
    case PipelineShape::kPipelines: return format("{} pipelines", outcome.pipelines.size());
    case PipelineShape::kFlow: break;
  }
  return "a flow over several routes, which no program runs yet (--pipelines runnable)";
}

std::string hosts_text(const PlanStage& stage) {
  std::string text;
  for (std::size_t k = 0; k < stage.hosts.size(); ++k) {
    text += (k == 0 ? "" : " ") + stage.hosts[k];
    if (!stage.turns.empty()) text += format(" x{}", stage.turns[k]);
  }
  return text;
}

// What a stage of the row lets through by its hosts alone: seconds from one micro-batch to the
// next.
double stage_period(const FlowProblem& problem, const PlanStage& stage) {
  double round = 0;
  double longest = 0;
  for (std::size_t k = 0; k < stage.hosts.size(); ++k) {
    const double turns = stage.turns.empty() ? 1 : stage.turns[k];
    round += turns;
    const auto host = std::ranges::find(problem.hosts, stage.hosts[k], &FlowHost::name);
    const double rate = problem.rate(host->kind, stage.first_layer - 1, stage.last_layer);
    longest = std::max(longest, turns / rate);
  }
  return longest / round;
}

std::string binding_words(const FlowProblem& problem, const PlannedPipeline& pipeline) {
  const PlanStage* slowest = nullptr;
  double longest = 0;
  for (const PlanStage& stage : pipeline.plan.stages) {
    const double own = stage_period(problem, stage);
    if (own > longest) slowest = &stage;
    longest = std::max(longest, own);
  }
  if (slowest == nullptr) return "nothing";
  if (longest * pipeline.rate < 1 - 1e-6) return "a link between two stages";
  return format("layers {}-{} on {}", slowest->first_layer, slowest->last_layer,
                hosts_text(*slowest));
}

Json stages_json(const FlowProblem& problem, const Plan& plan) {
  Json stages = Json::array();
  for (const PlanStage& stage : plan.stages) {
    Json hosts = Json::array();
    for (const std::string& host : stage.hosts) hosts.push(host);
    Json layers = Json::array();
    layers.push(static_cast<std::uint64_t>(stage.first_layer));
    layers.push(static_cast<std::uint64_t>(stage.last_layer));
    Json one = Json::object();
    one.set("hosts", std::move(hosts)).set("layers", std::move(layers));
    if (!stage.turns.empty()) {
      Json turns = Json::array();
      for (const std::uint32_t own : stage.turns) turns.push(static_cast<std::uint64_t>(own));
      one.set("turns", std::move(turns));
    }
    stages.push(std::move(one.set("period_s", stage_period(problem, stage))));
  }
  return stages;
}

Json pipelines_list(const PlanProblem& problem, const PipelinesOutcome& outcome) {
  Json list = Json::array();
  for (const PlannedPipeline& pipeline : outcome.pipelines) {
    list.push(Json::object()
                  .set("samples_per_s", samples(problem, pipeline.rate))
                  .set("share", pipeline.rate / outcome.rate)
                  .set("binds", binding_words(outcome.problem, pipeline))
                  .set("stages", stages_json(outcome.problem, pipeline.plan)));
  }
  return list;
}

}  // namespace

std::string pipelines_to_yaml(const PipelinesOutcome& outcome) {
  if (outcome.shape == PipelineShape::kFlow) return flow_to_yaml(outcome.problem, outcome.flow);
  std::string text;
  for (const PlannedPipeline& pipeline : outcome.pipelines) text += plan_to_yaml(pipeline.plan);
  return text;
}

std::string pipelines_to_text(const PlanProblem& problem, const PipelinesOutcome& outcome) {
  std::string text = format(
      "{}: {:.6g} samples/s in micro-batches of {}, as {}\n"
      "no way to use these hosts makes more than {:.6g}: {}\n"
      "the best single pipeline with hosts of one type to a stage makes {:.6g}\n",
      problem.model, samples(problem, outcome.rate), problem.batch_size, shape_words(outcome),
      samples(problem, outcome.flow.proof.rate),
      outcome.proven ? "proven optimal"
                     : format("at most {:.2f} % are to be gained", 100 * outcome.gap()),
      samples(problem, outcome.chain_rate));
  if (outcome.shape != PipelineShape::kFlow && outcome.flow.rate() > outcome.rate * 1.000001) {
    text += format("a flow over several routes, which no program runs yet, would make {:.6g}\n",
                   samples(problem, outcome.flow.rate()));
  }
  if (outcome.shape == PipelineShape::kFlow) {
    return text + flow_report_to_text(outcome.problem, outcome.flow);
  }
  for (std::size_t k = 0; k < outcome.pipelines.size(); ++k) {
    const PlannedPipeline& pipeline = outcome.pipelines[k];
    text += format("pipeline {}: {:.6g} samples/s, {:.1f} % of all; binds: {}\n", k + 1,
                   samples(problem, pipeline.rate), 100 * pipeline.rate / outcome.rate,
                   binding_words(outcome.problem, pipeline));
    for (const PlanStage& stage : pipeline.plan.stages) {
      text += format("  {:>4}-{:<4} {:12.6f} s  {}\n", stage.first_layer, stage.last_layer,
                     stage_period(outcome.problem, stage), hosts_text(stage));
    }
  }
  return text;
}

Json pipelines_to_json(const PlanProblem& problem, const PipelinesOutcome& outcome) {
  const bool flows = outcome.shape == PipelineShape::kFlow;
  Json weights = Json::array();
  for (const double weight : outcome.flow.proof.layer_weights) weights.push(weight);
  Json json = Json::object();
  json.set("model", problem.model)
      .set("dtype", problem.dtype)
      .set("batch_size", problem.batch_size)
      .set("shape", pipeline_shape_name(outcome.shape))
      .set("runs", !flows)
      .set("samples_per_s", samples(problem, outcome.rate))
      .set("period_s", 1 / outcome.rate)
      .set("bound_samples_per_s", samples(problem, outcome.flow.proof.rate))
      .set("gap", outcome.gap())
      .set("proven", outcome.proven)
      .set("one_pipeline_samples_per_s", samples(problem, outcome.chain_rate))
      .set("certificate", Json::object()
                              .set("rate", outcome.flow.proof.rate)
                              .set("layer_weights", std::move(weights)));
  json.set("flow_samples_per_s", samples(problem, outcome.flow.rate()));
  if (flows) return json.set("flow", flow_report_to_json(outcome.problem, outcome.flow));
  if (outcome.shape == PipelineShape::kRow) {
    json.set("stages", stages_json(outcome.problem, outcome.pipelines.front().plan));
  }
  return json.set("pipelines", pipelines_list(problem, outcome));
}

}  // namespace harmonics::inline in_plan
