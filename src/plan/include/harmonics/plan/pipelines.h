// Several pipelines at once: all hosts of a problem used together for the most samples a second.
//
// Three shapes, of which the fastest is taken: one row of stages, where hosts of any types take
// turns at a stage in proportion to their speed; several such rows that share no host; and a flow
// over several routes, where ranges of hosts overlap (flow_plan.h). The first two are plans that
// programs run; a flow is a figure and a placement, and whoever runs plans refuses it.
//
// Costs are those of cost_model.h with overlap: what a host computes, receives and sends at its own
// bandwidth. Between two hosts no more goes than their link allows; in a row, where turns decide
// who sends to whom, a link is held to the smaller share of its two ends, which no order of turns
// exceeds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/plan/flow_plan.h>
#include <harmonics/plan/plan.h>
#include <harmonics/plan/planner.h>

namespace harmonics::inline in_plan {

enum class PipelineShape { kRow, kPipelines, kFlow };
/// "row", "pipelines", "flow".
[[nodiscard]] std::string pipeline_shape_name(PipelineShape shape);

enum class PipelineWish {
  /// One pipeline, as make_plan finds it.
  kOne,
  /// The fastest of all shapes; a flow only where it brings more than a hundredth.
  kAuto,
  /// The fastest of those that programs run.
  kRunnable,
};

struct PipelinesOptions {
  CostOptions costs = {};
  /// kAuto or kRunnable.
  PipelineWish wish = PipelineWish::kAuto;
  /// Steps of work of each search; 0 for the defaults.
  std::uint64_t work = 0;
};

/// One row of stages, and the micro-batches a second that it makes.
struct PlannedPipeline {
  Plan plan;
  double rate = 0;
};

struct PipelinesOutcome {
  PipelineShape shape = PipelineShape::kRow;
  /// Empty for a flow; several for kPipelines, the fastest first.
  std::vector<PlannedPipeline> pipelines;
  /// Micro-batches a second in all.
  double rate = 0;
  /// The best single pipeline of make_plan, one host or several of a type to a stage.
  double chain_rate = 0;
  /// The same problem as a flow, which may be faster than what was taken; and the bound.
  FlowProblem problem;
  FlowOutcome flow;
  bool proven = false;

  /// What could be gained at most, as a share.
  [[nodiscard]] double gap() const;
};

/// The problem as a flow. Refuses with an `Error` (kInvalidArgument) what it cannot say: stages
/// that do not overlap, shared machines, a fixed order of hosts, more layers or hosts than its
/// ceilings.
[[nodiscard]] FlowProblem flow_of(const PlanProblem& problem, const CostOptions& costs);

/// Plans; never slower than make_plan with or without replication. Throws what `flow_of` throws,
/// and NoFeasiblePlan.
[[nodiscard]] PipelinesOutcome plan_pipelines(const PlanProblem& problem,
                                              const PipelinesOptions& options);

/// Micro-batches a second of one row of stages by the rules above. A host that the problem does not
/// have, or layers that a host cannot hold, are an `Error`.
[[nodiscard]] double row_rate(const FlowProblem& problem, const Plan& plan);

/// The list of docs/formats/plan.md; a further pipeline begins at layer 1 again. A flow is listed
/// by first layer.
[[nodiscard]] std::string pipelines_to_yaml(const PipelinesOutcome& outcome);
[[nodiscard]] std::string pipelines_to_text(const PlanProblem& problem,
                                            const PipelinesOutcome& outcome);
/// Of one row, `stages` are there as in any report, so that it can be run.
[[nodiscard]] Json pipelines_to_json(const PlanProblem& problem, const PipelinesOutcome& outcome);

}  // namespace harmonics::inline in_plan
