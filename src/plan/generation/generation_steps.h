// The steps of a generation as problems of the planner, each made once (private to plan).
#pragma once

#include <map>
#include <memory>
#include <vector>

#include <harmonics/plan/generation.h>

#include "plan_builder.h"

namespace harmonics::inline in_plan {

/// One step, with whoever takes the answers as its last stage.
struct GenerationStep {
  GenerationStep(PlanProblem made, const CostOptions& options)
      : problem(std::move(made)),
        costs(problem, options),
        builder(builder_for(problem, costs, false)) {}

  const PlanProblem problem;
  const CostModel costs;
  const StageGraphBuilder builder;

  [[nodiscard]] double period_s(const Placement& whole) const { return period_of(costs, whole); }
  [[nodiscard]] double way_s(const Placement& whole) const { return latency_of(costs, whole); }
};

/// How the sequences may be shared out: so many steps in flight, so many sequences in each.
struct StepShare {
  std::int64_t in_flight = 1;
  std::int64_t sequences = 1;
};

/// Keeps a reference to the model.
class GenerationSteps {
 public:
  GenerationSteps(const GenerationModel& model, const GenerationOptions& options);

  /// The ways to share out that differ, fewest steps in flight first.
  [[nodiscard]] const std::vector<StepShare>& shares() const { return shares_; }
  [[nodiscard]] const GenerationStep& decode(std::int64_t sequences) const;
  [[nodiscard]] const GenerationStep& prefill() const;
  [[nodiscard]] std::int64_t chunks() const { return model_.chunks(); }

  /// The stages of the model, and the same with whoever takes the answers.
  [[nodiscard]] Placement without_answers(Placement whole) const;
  [[nodiscard]] Placement with_answers(Placement stages) const;

  /// A placement with answers.
  [[nodiscard]] GenerationFigures figures(const Placement& whole, const StepShare& share) const;
  /// With the steps in flight that a prompt needs.
  [[nodiscard]] StepShare prompt_share(const Placement& whole) const;

 private:
  const GenerationModel& model_;
  CostOptions costs_;
  std::vector<StepShare> shares_;
  mutable std::map<std::int64_t, std::unique_ptr<GenerationStep>> decode_;
  mutable std::unique_ptr<GenerationStep> prefill_;
};

/// The time to the first token; see generation.h.
[[nodiscard]] double first_token_s(std::int64_t chunks, std::int64_t in_flight, double period_s,
                                   double way_s);

}  // namespace harmonics::inline in_plan
