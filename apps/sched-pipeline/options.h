// What a user can ask of sched-pipeline.
#pragma once

#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <harmonics/arguments/usage.h>
#include <harmonics/plan/choice.h>
#include <harmonics/plan/front.h>
#include <harmonics/plan/generation.h>
#include <harmonics/plan/inputs.h>
#include <harmonics/plan/operator_plan.h>
#include <harmonics/plan/pipelines.h>
#include <harmonics/plan/planner.h>
#include <harmonics/plan/replan.h>
#include <harmonics/plan/request.h>
#include <harmonics/plan/training.h>

namespace harmonics::inline in_sched_pipeline {

enum class ReportStyle { kNone, kText, kJson };

struct ScheduleOptions {
  PlanInputFiles files;
  PlanRequest request;
  ProfileFreedom freedom;
  PlannerOptions planner;
  MigrationCost migration;
  /// A plan that is in force: plan anew with the cost of moving.
  std::filesystem::path current_plan;
  /// Two plans to compare; nothing is planned.
  std::vector<std::filesystem::path> compared_plans;
  /// An operator graph to plan for, in place of the three files.
  std::filesystem::path operator_graph;
  OperatorSplit split = OperatorSplit::kContiguous;
  /// A flow problem to plan for, in place of the three files.
  std::filesystem::path flow_problem;
  PipelineWish pipelines = PipelineWish::kOne;
  /// Another aim than the planner's, or one with a deadline.
  std::optional<PlanAim> aim{};
  /// For a language model that makes texts.
  std::optional<GenerationOptions> generation{};
  GenerationWish wish{};
  bool explain = false;
  /// How a batch is learnt, of a model that was measured for it; whether somebody asked.
  TrainingWish training{};
  bool asks_training = false;
  double deadline_s = std::numeric_limits<double>::infinity();
  /// All plans between which one has to choose, in place of one.
  bool front = false;
  bool fallbacks = false;
  ReportStyle report = ReportStyle::kNone;
  /// Empty: the report goes to standard error.
  std::filesystem::path report_file;
  std::filesystem::path svg_file;
};

[[nodiscard]] std::variant<ScheduleOptions, UsageAnswer> parse_schedule_options(
    int argc, const char* const* argv);

}  // namespace harmonics::inline in_sched_pipeline
