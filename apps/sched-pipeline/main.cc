// sched-pipeline: reads the planner's files and prints a plan. Standard output carries the plan and
// nothing else; everything else goes to standard error or to files.
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/exception_text.h>
#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/plan/flow_plan.h>
#include <harmonics/plan/plan.h>
#include <harmonics/plan/report.h>

#include "options.h"

namespace harmonics::inline in_sched_pipeline {
namespace {

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void write_stream(std::FILE* stream, std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stream) != text.size() || std::fflush(stream) != 0) {
    fail(ErrorCode::kUnavailable, "cannot write all of the output: is the disk full?");
  }
}

Plan read_plan(const std::filesystem::path& path) {
  return parse_plan(read_text_file(path, kMaxPlannerFileBytes), path.string());
}

int compare_plans(const ScheduleOptions& options) {
  const Plan before = read_plan(options.compared_plans[0]);
  const Plan after = read_plan(options.compared_plans[1]);
  write_stream(stdout, difference_to_text(plan_difference(before, after)));
  return kExitDone;
}

// The report of the plan that is printed, with the sections that were asked for.
PlanReport plan_and_report(const ScheduleOptions& options, Plan& plan) {
  const double start = cpu_seconds();
  const PlanInputs inputs = read_plan_inputs(options.files);
  ProfilePlan best = plan_best_profile(inputs, options.request, options.planner, options.freedom);
  PlanReport report;
  if (options.current_plan.empty()) {
    plan = name_hosts(best.problem, best.outcome.placement);
    report = make_report(best.problem, options.planner, std::move(best.outcome), plan);
  } else {
    const Plan current = read_plan(options.current_plan);
    ReplanOutcome moved = replan(best.problem, options.planner, current, options.migration);
    plan = moved.plan;
    report = make_report(best.problem, options.planner, moved.outcome, plan);
    report.changes = plan_difference(current, plan);
    report.replan = std::move(moved);
  }
  if (options.asks_training || is_trained(best.problem)) {
    add_training(report, best.problem, options.training);
  }
  report.tried = std::move(best.tried);
  if (options.fallbacks) report.fallbacks = plan_fallbacks(best.problem, options.planner, plan);
  report.plan_seconds = cpu_seconds() - start;
  return report;
}

// Standard error holds the JSON report and nothing else: warnings are a part of it.
bool keeps_warnings(const ScheduleOptions& options) {
  return options.report == ReportStyle::kJson && options.report_file.empty();
}

Json json_with_warnings(const PlanReport& report, const std::vector<std::string>& warnings) {
  Json list = Json::array();
  for (const std::string& line : warnings) {
    if (line.starts_with("warn") || line.starts_with("error")) list.push(line);
  }
  return report_to_json(report).set("warnings", std::move(list));
}

// Where a report is wanted, as JSON or as text, where it is wanted.
template <typename AsJson, typename AsText>
void put_report(const ScheduleOptions& options, AsJson as_json, AsText as_text) {
  const bool to_file = !options.report_file.empty();
  if (options.report == ReportStyle::kNone && !to_file) return;
  const std::string text =
      options.report == ReportStyle::kJson ? as_json().dump(2) + "\n" : as_text();
  if (to_file) {
    write_text_file(options.report_file, text);
  } else {
    write_stream(stderr, text);
  }
}

void write_report(const ScheduleOptions& options, const PlanReport& report,
                  const std::vector<std::string>& warnings) {
  if (!options.svg_file.empty()) write_text_file(options.svg_file, report_to_svg(report));
  put_report(
      options, [&] { return json_with_warnings(report, warnings); },
      [&] { return report_to_text(report); });
}

int schedule_operators(const ScheduleOptions& options) {
  const double start = cpu_seconds();
  const OperatorGraph graph =
      parse_operator_graph(read_text_file(options.operator_graph, kMaxOperatorFileBytes),
                           options.operator_graph.string());
  const OperatorPlanOptions wishes{options.planner.costs.overlap, options.split,
                                   options.planner.work};
  const OperatorOutcome outcome = plan_operators(graph, wishes);
  const double seconds = cpu_seconds() - start;
  put_report(
      options,
      [&] { return operator_report_to_json(graph, wishes, outcome).set("plan_seconds", seconds); },
      [&] { return operator_report_to_text(graph, wishes, outcome); });
  write_stream(stdout, operator_plan_to_yaml(graph, outcome));
  return kExitDone;
}

int schedule_flow(const ScheduleOptions& options) {
  const double start = cpu_seconds();
  const FlowProblem problem = parse_helix_lp(
      read_text_file(options.flow_problem, kMaxFlowFileBytes), options.flow_problem.string());
  const FlowOutcome outcome = plan_flow(problem, {.work = options.planner.work});
  const double seconds = cpu_seconds() - start;
  put_report(
      options, [&] { return flow_report_to_json(problem, outcome).set("plan_seconds", seconds); },
      [&] { return flow_report_to_text(problem, outcome); });
  write_stream(stdout, flow_to_yaml(problem, outcome));
  return kExitDone;
}

int schedule_pipelines(const ScheduleOptions& options) {
  const double start = cpu_seconds();
  const PlanProblem problem = make_problem(read_plan_inputs(options.files), options.request);
  const PipelinesOutcome outcome =
      plan_pipelines(problem, {options.planner.costs, options.pipelines, options.planner.work});
  const double seconds = cpu_seconds() - start;
  put_report(
      options, [&] { return pipelines_to_json(problem, outcome).set("plan_seconds", seconds); },
      [&] { return pipelines_to_text(problem, outcome); });
  write_stream(stdout, pipelines_to_yaml(outcome));
  return kExitDone;
}

AimOptions aim_options(const ScheduleOptions& options) {
  return {options.planner.costs, options.planner.replicate, options.deadline_s,
          options.planner.work};
}

int schedule_front(const ScheduleOptions& options) {
  const PlanProblem problem = make_problem(read_plan_inputs(options.files), options.request);
  const PlanFront front = plan_front(problem, aim_options(options));
  if (!options.svg_file.empty()) write_text_file(options.svg_file, front_to_svg(problem, front));
  put_report(
      options, [&] { return front_to_json(problem, front); },
      [&] { return front_to_text(problem, front); });
  write_stream(stdout, front_to_text(problem, front));
  return kExitDone;
}

int schedule_aim(const ScheduleOptions& options) {
  const double start = cpu_seconds();
  const PlanProblem problem = make_problem(read_plan_inputs(options.files), options.request);
  const AimOutcome found = plan_for_aim(problem, *options.aim, aim_options(options));
  const Plan plan = name_hosts(problem, found.plan.placement);
  PlanReport report = make_report(problem, options.planner, outcome_of(found), plan);
  report.plan_seconds = cpu_seconds() - start;
  if (!options.svg_file.empty()) write_text_file(options.svg_file, report_to_svg(report));
  put_report(
      options,
      [&] { return report_to_json(report).set("aim", aim_to_json(found, options.deadline_s)); },
      [&] { return report_to_text(report) + aim_to_text(found, options.deadline_s); });
  write_stream(stdout, plan_to_yaml(plan));
  return kExitDone;
}

int schedule_generation(const ScheduleOptions& options) {
  const PlanInputs inputs = read_plan_inputs(options.files);
  const double start = cpu_seconds();
  const GenerationModel model(inputs, options.wish);
  const GenerationOutcome outcome = plan_generation(model, *options.generation);
  GenerationReport report = make_generation_report(model, *options.generation, outcome);
  report.plan_seconds = cpu_seconds() - start;
  if (options.explain) report.explanation = explain_generation(model, report);
  put_report(
      options, [&] { return generation_to_json(report); },
      [&] { return generation_to_text(report); });
  write_stream(stdout, plan_to_yaml(report.plan));
  return kExitDone;
}

// What is logged meanwhile goes into `warnings`; when it fails, to standard error.
template <typename Make>
PlanReport keep_warnings(Make make, std::vector<std::string>& warnings) {
  const LogCapture capture;
  try {
    PlanReport report = make();
    warnings = capture.lines();
    return report;
  } catch (...) {
    warnings = capture.lines();
    for (const std::string& line : warnings) write_stream(stderr, line + "\n");
    throw;
  }
}

int schedule(const ScheduleOptions& options) {
  if (!options.compared_plans.empty()) return compare_plans(options);
  if (!options.operator_graph.empty()) return schedule_operators(options);
  if (!options.flow_problem.empty()) return schedule_flow(options);
  if (options.pipelines != PipelineWish::kOne) return schedule_pipelines(options);
  if (options.generation) return schedule_generation(options);
  if (options.front) return schedule_front(options);
  if (options.aim) return schedule_aim(options);
  Plan plan;
  std::vector<std::string> warnings;
  const PlanReport report =
      keeps_warnings(options)
          ? keep_warnings([&] { return plan_and_report(options, plan); }, warnings)
          : plan_and_report(options, plan);
  write_report(options, report, warnings);
  write_stream(stdout, plan_to_yaml(plan));
  return kExitDone;
}

int run(int argc, char** argv) {
  const auto parsed = parse_schedule_options(argc, argv);
  if (const UsageAnswer* answer = std::get_if<UsageAnswer>(&parsed)) {
    write_stream(answer->exit_code == kExitDone ? stdout : stderr, answer->text);
    return answer->exit_code;
  }
  return schedule(std::get<ScheduleOptions>(parsed));
}

int complain(const std::string& what, int exit_code) {
  std::fprintf(stderr, "sched-pipeline: %s\n", what.c_str());
  return exit_code;
}

}  // namespace
}  // namespace harmonics::inline in_sched_pipeline

int main(int argc, char** argv) {
  try {
    return harmonics::run(argc, argv);
  } catch (const harmonics::NoFeasiblePlan& error) {
    return harmonics::complain(error.what(), harmonics::kExitNoPlan);
  } catch (...) {
    return harmonics::complain(harmonics::current_exception_text(), harmonics::kExitFailed);
  }
}
