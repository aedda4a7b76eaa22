#include <algorithm>

#include <harmonics/base/listed.h>
#include <harmonics/plan/generation.h>

#include "generation_steps.h"

namespace harmonics::inline in_plan {
namespace {

std::string binding_part(const StageCosts& costs) {
  if (costs.compute_s >= costs.receive_s && costs.compute_s >= costs.send_s) return "compute";
  return costs.receive_s >= costs.send_s ? "receive" : "send";
}

std::string milliseconds(double seconds) { return format("{:.3f} ms", seconds * 1e3); }

std::string certificate(const GenerationReport& report) {
  const GenerationOutcome& outcome = report.outcome;
  const bool cycle = report.options.goal == GenerationGoal::kTokens;
  const std::string what = cycle ? "cycle" : "first token";
  if (outcome.proven) {
    return format("no plan has a shorter {} than {}: proven optimal", what,
                  milliseconds(outcome.value_s));
  }
  return format("no plan has a {} below {}: at most {:.3f} % are to be gained", what,
                milliseconds(outcome.lower_bound_s),
                100 * (outcome.value_s / outcome.lower_bound_s - 1));
}

Json stage_json(const GenerationReport& report, std::size_t k) {
  const GenerationReport::Stage& one = report.stages[k];
  const PlanStage& stage = report.plan.stages[k];
  Json hosts = Json::array();
  for (const std::string& host : stage.hosts) hosts.push(host);
  Json layers = Json::array();
  layers.push(static_cast<std::uint64_t>(stage.first_layer))
      .push(static_cast<std::uint64_t>(stage.last_layer));
  return Json::object()
      .set("hosts", std::move(hosts))
      .set("type", one.type)
      .set("layers", std::move(layers))
      .set("compute_s", one.decode.compute_s)
      .set("receive_s", one.decode.receive_s)
      .set("send_s", one.decode.send_s)
      .set("transfer_s", one.decode.transfer_s)
      .set("latency_s", one.decode.latency_s)
      .set("period_s", one.decode.period_s)
      .set("chunk_compute_s", one.prefill.compute_s)
      .set("chunk_period_s", one.prefill.period_s)
      .set("memory_mb", one.decode.memory_bytes / kBytesPerMegabyte)
      .set("cache_mb", one.cache_bytes / kBytesPerMegabyte)
      .set("capacity_mb", one.decode.capacity_bytes / kBytesPerMegabyte)
      .set("binds", one.binds);
}

}  // namespace

GenerationReport make_generation_report(const GenerationModel& model,
                                        const GenerationOptions& options,
                                        const GenerationOutcome& outcome) {
  GenerationReport report;
  report.model = model.name();
  report.wish = model.wish();
  report.options = options;
  report.outcome = outcome;
  const GenerationSteps steps(model, options);
  const Placement whole = steps.with_answers(outcome.placement);
  const GenerationStep& decode = steps.decode(outcome.figures.step_sequences);
  report.plan = name_hosts(decode.problem, outcome.placement);
  const ModelProfile& profile = model.inputs().models.begin()->second;
  double all_cache = 0;
  for (const std::int64_t bytes : profile.cache_bytes) all_cache += static_cast<double>(bytes);
  const double cache = model.cache_mb(model.wish().sequences) * kBytesPerMegabyte;
  for (std::size_t k = 0; k < outcome.placement.size(); ++k) {
    GenerationReport::Stage stage;
    stage.type = decode.problem.classes[whole[k].host_class].type;
    stage.decode = stage_costs(decode.costs, whole, k);
    stage.prefill = stage_costs(steps.prefill().costs, whole, k);
    double share = 0;
    for (std::size_t layer = whole[k].first_cut; layer < whole[k].last_cut; ++layer) {
      share += static_cast<double>(profile.cache_bytes[layer]);
    }
    if (all_cache > 0) stage.cache_bytes = cache * share / all_cache;
    stage.binds =
        binding_part(options.goal == GenerationGoal::kTokens ? stage.decode : stage.prefill);
    report.stages.push_back(std::move(stage));
  }
  return report;
}

std::string generation_to_text(const GenerationReport& report) {
  const GenerationFigures& figures = report.outcome.figures;
  const GenerationWish& wish = report.wish;
  std::string text = format(
      "{}: {} sequences of {} tokens ({} of the prompt), {} steps of up to {} in flight\n"
      "{:.2f} tokens/s: each sequence gets one every {} (the slowest stage {} a step, the way "
      "through all {})\n"
      "the first token of a prompt alone after {} ({} chunks)\n",
      report.model, wish.sequences, wish.context, wish.prompt, figures.in_flight,
      figures.step_sequences, figures.tokens_per_s(), milliseconds(figures.cycle_s),
      milliseconds(figures.period_s), milliseconds(figures.way_s),
      milliseconds(figures.first_token_s), figures.chunks);
  text += certificate(report) + "\n";
  if (report.options.goal == GenerationGoal::kBoth) {
    text += format("of the plans with at least {:.0f} % of the most tokens/s, {:.2f}{}\n",
                   100 * (1 - report.options.tolerance),
                   static_cast<double>(wish.sequences) / report.outcome.least_cycle_s,
                   report.outcome.least_cycle_proven ? " (proven)" : "");
  }
  for (const std::string& line : report.explanation) text += line + "\n";
  return text;
}

Json generation_to_json(const GenerationReport& report) {
  const GenerationOutcome& outcome = report.outcome;
  const GenerationFigures& figures = outcome.figures;
  Json stages = Json::array();
  for (std::size_t k = 0; k < report.stages.size(); ++k) stages.push(stage_json(report, k));
  Json json = Json::object();
  json.set("model", report.model)
      .set("dtype", report.wish.hosts.dtype)
      .set("batch_size", figures.step_sequences)
      .set("goal", std::string(generation_goal_name(report.options.goal)))
      .set("objective_s", outcome.value_s)
      .set("lower_bound_s", outcome.lower_bound_s)
      .set("gap", outcome.value_s / outcome.lower_bound_s - 1)
      .set("proven", outcome.proven)
      .set("tokens_per_s", figures.tokens_per_s())
      .set("first_token_s", figures.first_token_s)
      .set("context", report.wish.context)
      .set("prompt", report.wish.prompt)
      .set("sequences", figures.sequences)
      .set("in_flight", figures.in_flight)
      .set("step_sequences", figures.step_sequences)
      .set("cycle_s", figures.cycle_s)
      .set("period_s", figures.period_s)
      .set("way_s", figures.way_s)
      .set("chunks", figures.chunks)
      .set("chunk_period_s", figures.chunk_period_s)
      .set("chunk_way_s", figures.chunk_way_s)
      .set("stages", std::move(stages))
      .set("plan_seconds", report.plan_seconds)
      .set("work", outcome.work);
  if (report.options.goal == GenerationGoal::kBoth) {
    json.set("tolerance", report.options.tolerance)
        .set("least_cycle_s", outcome.least_cycle_s)
        .set("least_cycle_proven", outcome.least_cycle_proven);
  }
  if (report.explanation.empty()) return json;
  Json lines = Json::array();
  for (const std::string& line : report.explanation) lines.push(line);
  return json.set("explanation", std::move(lines));
}

}  // namespace harmonics::inline in_plan
