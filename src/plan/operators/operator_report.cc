#include <algorithm>
#include <cmath>
#include <string_view>

#include <harmonics/base/format.h>
#include <harmonics/plan/operator_plan.h>

namespace harmonics::inline in_plan {
namespace {

Json number(std::size_t value) { return Json(static_cast<std::uint64_t>(value)); }

std::string binding_part(const OperatorStageCosts& costs, Overlap overlap) {
  if (overlap == Overlap::kNone) {
    return costs.compute_s >= costs.receive_s + costs.send_s ? "compute" : "transfers";
  }
  if (costs.compute_s >= costs.receive_s && costs.compute_s >= costs.send_s) return "compute";
  return costs.receive_s >= costs.send_s ? "receive" : "send";
}

const std::string& host_of(const OperatorGraph& graph, const OperatorStage& stage) {
  return graph.devices[stage.device].hosts[stage.host];
}

std::string how(const OperatorOutcome& outcome) {
  switch (outcome.method) {
    case OperatorMethod::kWholeLattice:
      return format("exact: all splits along the {} ideals of {} units were looked at",
                    outcome.ideals, outcome.units);
    case OperatorMethod::kOrders:
      return outcome.ideals == 0
                 ? format("orders of {} units were cut like a chain: they have more than {} ideals",
                          outcome.units, kMaxIdeals)
                 : format(
                       "orders of {} units were cut like a chain: the work did not do for their "
                       "{} ideals (--work allows more)",
                       outcome.units, outcome.ideals);
    case OperatorMethod::kWholeAssignments:
      return format("exact: all ways to give {} units to hosts were looked at", outcome.units);
    case OperatorMethod::kMoves: break;
  }
  return format("{} units were moved from host to host for as long as the work did", outcome.units);
}

std::string bound_text(const OperatorOutcome& outcome) {
  std::string text =
      format("period {:.9g} s, lower bound {:.9g} s: ", outcome.period_s, outcome.lower_bound_s);
  if (outcome.proven) return text + "proven optimal\n";
  if (!std::isfinite(outcome.gap())) {
    return text + "how far the best plan is from it was not found out\n";
  }
  return text + format("within {:.4f} % of the best plan\n", 100 * outcome.gap());
}

std::string_view split_name(OperatorSplit split) {
  return split == OperatorSplit::kFree ? "free" : "contiguous";
}

}  // namespace

std::string operator_method_name(OperatorMethod method) {
  switch (method) {
    case OperatorMethod::kWholeLattice: return "whole lattice";
    case OperatorMethod::kOrders: return "orders";
    case OperatorMethod::kWholeAssignments: return "whole assignments";
    case OperatorMethod::kMoves: break;
  }
  return "moves";
}

std::string operator_plan_to_yaml(const OperatorGraph& graph, const OperatorOutcome& outcome) {
  std::string text;
  for (const OperatorStage& stage : outcome.stages) {
    text += "- " + json_quote(host_of(graph, stage)) + ": [";
    std::string_view before = "";
    for (const std::size_t node : stage.nodes) {
      text += before;
      text += json_quote(graph.nodes[node].name);
      before = ", ";
    }
    text += "]\n";
  }
  return text.empty() ? "[]\n" : text;
}

std::string operator_report_to_text(const OperatorGraph& graph, const OperatorPlanOptions& options,
                                    const OperatorOutcome& outcome) {
  std::string text = format(
      "{} split of {} ({} operators, {} tensors)\n", split_name(options.split),
      graph.name.empty() ? "the graph" : graph.name, graph.nodes.size(), graph.tensors.size());
  text += bound_text(outcome) + how(outcome) + "\n";
  std::size_t width = 4;
  for (const OperatorStage& stage : outcome.stages) {
    width = std::max(width, host_of(graph, stage).size());
  }
  text += format("  {:>5}  {:<{}}  {:>9}  {:>13}  {:>13}  {:>13}  {:>12}  {}\n", "stage", "host",
                 width, "operators", "compute s", "receive s", "send s", "memory MB", "binds");
  for (std::size_t k = 0; k < outcome.stages.size(); ++k) {
    const OperatorStage& stage = outcome.stages[k];
    const OperatorStageCosts costs = operator_stage_costs(graph, options.overlap, stage);
    text +=
        format("  {:>5}  {:<{}}  {:>9}  {:>13.9f}  {:>13.9f}  {:>13.9f}  {:>12.1f}  {}{}\n", k + 1,
               host_of(graph, stage), width, stage.nodes.size(), costs.compute_s, costs.receive_s,
               costs.send_s, costs.memory_mb, binding_part(costs, options.overlap),
               costs.period_s >= outcome.period_s ? "  <- slowest" : "");
  }
  text += format("certificate: no split has a period below {:.9g} s; prices per host:",
                 outcome.proof.bound_s);
  for (std::size_t d = 0; d < graph.devices.size(); ++d) {
    text += format(" {} {:.9g}", graph.devices[d].type, outcome.proof.price[d]);
  }
  return text + "\n";
}

Json operator_report_to_json(const OperatorGraph& graph, const OperatorPlanOptions& options,
                             const OperatorOutcome& outcome) {
  Json stages = Json::array();
  for (const OperatorStage& stage : outcome.stages) {
    const OperatorStageCosts costs = operator_stage_costs(graph, options.overlap, stage);
    Json nodes = Json::array();
    for (const std::size_t node : stage.nodes) nodes.push(graph.nodes[node].name);
    stages.push(Json::object()
                    .set("host", host_of(graph, stage))
                    .set("type", graph.devices[stage.device].type)
                    .set("nodes", std::move(nodes))
                    .set("compute_s", costs.compute_s)
                    .set("receive_s", costs.receive_s)
                    .set("send_s", costs.send_s)
                    .set("period_s", costs.period_s)
                    .set("memory_mb", costs.memory_mb)
                    .set("binds", binding_part(costs, options.overlap)));
  }
  Json prices = Json::array();
  for (std::size_t d = 0; d < graph.devices.size(); ++d) {
    prices.push(Json::object()
                    .set("type", graph.devices[d].type)
                    .set("hosts", number(graph.devices[d].hosts.size()))
                    .set("price", outcome.proof.price[d]));
  }
  return Json::object()
      .set("model", graph.name)
      .set("split", split_name(options.split))
      .set("overlap", options.overlap == Overlap::kNone ? "none" : "full")
      .set("period_s", outcome.period_s)
      .set("lower_bound_s", outcome.lower_bound_s)
      .set("gap", std::isfinite(outcome.gap()) ? Json(outcome.gap()) : Json())
      .set("proven", outcome.proven)
      .set("method", operator_method_name(outcome.method))
      .set("units", number(outcome.units))
      .set("ideals", outcome.ideals == 0 ? Json() : number(outcome.ideals))
      .set("stages", std::move(stages))
      .set("certificate",
           Json::object().set("bound_s", outcome.proof.bound_s).set("prices", std::move(prices)))
      .set("work", outcome.work);
}

}  // namespace harmonics::inline in_plan
