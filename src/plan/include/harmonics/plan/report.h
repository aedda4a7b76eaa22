// What there is to say about a plan: for people, for programs, and as a picture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/plan/choice.h>
#include <harmonics/plan/noise.h>
#include <harmonics/plan/plan.h>
#include <harmonics/plan/planner.h>
#include <harmonics/plan/replan.h>
#include <harmonics/plan/training.h>

namespace harmonics::inline in_plan {

struct PlannedStage {
  PlanStage stage;
  std::string type;
  StageCosts costs;
  /// Which part of the stage takes longest: "compute", "receive", "send", or "cores" where the
  /// stages of its machine do.
  std::string binds;
  /// The machine that it shares with other hosts, and seconds a micro-batch that the stages there
  /// need of its cores; empty: none.
  std::string machine = {};
  double machine_s = 0;
  /// Where bits were asked for (boundary_bits.h): those of what leaves, 0 for the last stage, and
  /// seconds of packing and unpacking, which are among those of computing.
  int boundary_bits = 0;
  double packing_s = 0;
};

/// A plan with everything that is known about it.
struct PlanReport {
  std::string model;
  std::string dtype;
  std::int64_t batch_size = 1;
  PlannerOptions options;
  PlanOutcome outcome;
  std::vector<PlannedStage> stages;
  /// Which stage is the slowest, from 0; without stages 0.
  std::size_t slowest_stage = 0;
  /// Batches that must be under way in all stages together, so that no stage waits for the answer
  /// of a link with latency; 0: two for each stage are enough.
  std::size_t in_flight = 0;
  /// Per class of the problem: type, how many hosts it has, how many are used.
  struct ClassUse {
    std::string type;
    std::size_t hosts = 0;
    std::size_t used = 0;
  };
  std::vector<ClassUse> classes;
  /// CPU seconds that planning took; only for the reader, no part of the plan.
  double plan_seconds = 0;

  /// Where bits were asked for: the period with boundaries as they are; 0 elsewhere.
  double exact_period_s = 0;

  // Sections that were asked for.
  std::vector<TriedProfile> tried;
  std::vector<FallbackPlan> fallbacks;
  std::vector<PlanChange> changes;
  std::optional<ReplanOutcome> replan;
  /// The fastest host by itself, where somebody looked.
  std::optional<AloneHost> alone;
  /// Where it learns; the memory of the stages is then what they hold in that order.
  std::optional<PlannedTraining> training;
  /// Cuts that other measurements might have put elsewhere.
  std::vector<NoisyCut> noise;

  /// Whether several hosts take longer for a sample than one of them alone.
  [[nodiscard]] bool alone_is_faster() const {
    return alone && outcome.hosts > 1 && alone->samples_per_s > samples_per_s();
  }
  /// Infinite for a period of 0.
  [[nodiscard]] double samples_per_s() const {
    return static_cast<double>(batch_size) / outcome.period_s;
  }
  /// How far the plan may be from the best one: objective / lower bound - 1; infinite without a
  /// bound.
  [[nodiscard]] double gap() const;
};

/// `plan` is the placement of the outcome with names.
[[nodiscard]] PlanReport make_report(const PlanProblem& problem, const PlannerOptions& options,
                                     PlanOutcome outcome, const Plan& plan);

/// Adds what the plan means for learning in that order. A problem that was not measured for it is
/// an Error; a stage that would hold more than its host has is a NoFeasiblePlan that names it.
void add_training(PlanReport& report, const PlanProblem& problem, const TrainingWish& wish);

[[nodiscard]] std::string report_to_text(const PlanReport& report);
[[nodiscard]] Json report_to_json(const PlanReport& report);

/// The pipeline as a time line: a row per stage, the first micro-batches as bars. An SVG document.
[[nodiscard]] std::string report_to_svg(const PlanReport& report);

}  // namespace harmonics::inline in_plan
