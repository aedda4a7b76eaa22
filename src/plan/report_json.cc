#include <harmonics/plan/report.h>

namespace harmonics::inline in_plan {
namespace {

Json count(std::size_t value) { return Json(static_cast<std::uint64_t>(value)); }

Json range_json(std::size_t first, std::size_t last) {
  if (first == 0) return Json();
  return Json::array().push(count(first)).push(count(last));
}

Json plan_json(const Plan& plan) {
  Json list = Json::array();
  for (const PlanStage& stage : plan.stages) {
    Json hosts = Json::array();
    for (const std::string& host : stage.hosts) hosts.push(host);
    list.push(Json::object()
                  .set("hosts", std::move(hosts))
                  .set("layers", range_json(stage.first_layer, stage.last_layer)));
  }
  return list;
}

Json stages_json(const PlanReport& report) {
  Json list = Json::array();
  for (const PlannedStage& one : report.stages) {
    Json hosts = Json::array();
    for (const std::string& host : one.stage.hosts) hosts.push(host);
    Json stage = Json::object()
                     .set("hosts", std::move(hosts))
                     .set("type", one.type)
                     .set("layers", range_json(one.stage.first_layer, one.stage.last_layer))
                     .set("compute_s", one.costs.compute_s)
                     .set("receive_s", one.costs.receive_s)
                     .set("send_s", one.costs.send_s)
                     .set("transfer_s", one.costs.transfer_s)
                     .set("period_s", one.costs.period_s)
                     .set("memory_mb", one.costs.memory_bytes / kBytesPerMegabyte)
                     .set("capacity_mb", one.costs.capacity_bytes / kBytesPerMegabyte)
                     .set("binds", one.binds);
    if (one.costs.latency_s > 0) stage.set("latency_s", one.costs.latency_s);
    if (!one.machine.empty()) stage.set("machine", one.machine).set("machine_s", one.machine_s);
    if (report.exact_period_s > 0) {
      stage.set("boundary_bits", one.boundary_bits == 0 ? Json() : Json(one.boundary_bits))
          .set("packing_s", one.packing_s);
    }
    list.push(std::move(stage));
  }
  return list;
}

Json certificate_json(const PlanReport& report) {
  if (!report.outcome.proof) return Json();
  Json prices = Json::array();
  for (std::size_t u = 0; u < report.classes.size(); ++u) {
    prices.push(Json::object()
                    .set("type", report.classes[u].type)
                    .set("hosts", count(report.classes[u].hosts))
                    .set("price", report.outcome.proof->price[u]));
  }
  Json certificate = Json::object()
                         .set("period_s", report.outcome.proof->period_s)
                         .set("prices", std::move(prices));
  if (report.outcome.proof->shares.empty()) return certificate;
  Json shares = Json::array();
  for (const SharePrice& rule : report.outcome.proof->shares) {
    shares.push(Json::object()
                    .set("class", count(rule.host_class + 1))
                    .set("parts", count(rule.parts))
                    .set("price", rule.price));
  }
  return certificate.set("shares", std::move(shares));
}

Json fallbacks_json(const PlanReport& report) {
  Json list = Json::array();
  for (const FallbackPlan& one : report.fallbacks) {
    Json entry = Json::object();
    entry.set("type", one.type).set("lost_host", one.lost_host);
    if (one.plan) {
      entry.set("period_s", one.period_s)
          .set("proven", one.proven)
          .set("moved_mb", one.moved_mb)
          .set("plan", plan_json(*one.plan));
    } else {
      entry.set("reason", one.reason);
    }
    list.push(std::move(entry));
  }
  return list;
}

Json changes_json(const PlanReport& report) {
  Json list = Json::array();
  for (const PlanChange& one : report.changes) {
    list.push(Json::object()
                  .set("host", one.host)
                  .set("before", range_json(one.first_layer_before, one.last_layer_before))
                  .set("after", range_json(one.first_layer_after, one.last_layer_after))
                  .set("layers_gained", count(one.layers_gained)));
  }
  return list;
}

Json tried_json(const PlanReport& report) {
  Json list = Json::array();
  for (const TriedProfile& one : report.tried) {
    list.push(Json::object()
                  .set("batch_size", one.key.batch_size)
                  .set("dtype", one.key.dtype)
                  .set("feasible", one.feasible)
                  .set("samples_per_s", one.feasible ? 1 / one.seconds_per_sample : 0.0)
                  .set("latency_s", one.latency_s));
  }
  return list;
}

}  // namespace

Json report_to_json(const PlanReport& report) {
  const PlanOutcome& outcome = report.outcome;
  Json json = Json::object();
  json.set("model", report.model)
      .set("dtype", report.dtype)
      .set("batch_size", report.batch_size)
      .set("goal", report.options.goal == PlanGoal::kLatency ? "latency" : "throughput")
      .set("objective_s", outcome.objective_s(report.options.goal))
      .set("lower_bound_s", outcome.lower_bound_s)
      .set("gap", report.gap())
      .set("proven", outcome.proven)
      .set("least_s", outcome.least_s)
      .set("least_proven", outcome.least_proven)
      .set("period_s", outcome.period_s)
      .set("latency_s", outcome.latency_s)
      .set("samples_per_s", report.samples_per_s())
      .set("hosts", count(outcome.hosts))
      .set("stages", stages_json(report));
  if (report.in_flight > 0) json.set("in_flight", count(report.in_flight));
  if (report.exact_period_s > 0) json.set("exact_period_s", report.exact_period_s);
  if (!report.stages.empty()) {
    json.set("slowest_stage", count(report.slowest_stage + 1))
        .set("binds", report.stages[report.slowest_stage].binds);
  }
  json.set("certificate", certificate_json(report))
      .set("preference_proven", outcome.preference_proven)
      .set("plan_seconds", report.plan_seconds)
      .set("work", outcome.work);
  if (report.alone) {
    json.set("alone", Json::object()
                          .set("host", report.alone->host)
                          .set("type", report.alone->type)
                          .set("batch_size", report.alone->batch_size)
                          .set("samples_per_s", report.alone->samples_per_s)
                          .set("is_faster", report.alone_is_faster()));
  }
  if (report.training) json.set("training", training_to_json(*report.training));
  if (!report.noise.empty()) json.set("noise", noise_to_json(report.noise));
  if (report.tried.size() > 1) json.set("tried", tried_json(report));
  if (!report.fallbacks.empty()) json.set("fallbacks", fallbacks_json(report));
  if (report.replan) {
    json.set("replan", Json::object()
                           .set("stays", report.replan->stays)
                           .set("moved_mb", report.replan->moved_mb)
                           .set("migration_s", report.replan->migration_s)
                           .set("total_s", report.replan->total_s));
  }
  if (report.replan || !report.changes.empty()) json.set("changes", changes_json(report));
  return json;
}

}  // namespace harmonics::inline in_plan
