#include "plan_aims.h"

#include <limits>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/console/terminal.h>
#include <harmonics/place/plan_partition.h>
#include <harmonics/plan/pipelines.h>

#include "plan_files.h"

namespace harmonics::inline in_front {
namespace {

AimOptions aim_options(const PlanCommand& command, const PlannerOptions& options) {
  return {options.costs, options.replicate, deadline_of(command), options.work};
}

std::vector<std::string> write_pipelines(const PlanCommand& command, const HarmonicGraph& graph,
                                         const PipelinesOutcome& outcome) {
  if (outcome.shape == PipelineShape::kFlow) {
    fail(
        ErrorCode::kFailedPrecondition,
        "the fastest plan is a flow over several routes, which no program runs: it has no parts to "
        "write. Ask for --pipelines runnable, or leave out --out-dir");
  }
  std::vector<std::string> files;
  for (std::size_t k = 0; k < outcome.pipelines.size(); ++k) {
    const Plan& plan = outcome.pipelines[k].plan;
    const std::filesystem::path folder = outcome.pipelines.size() == 1
                                             ? command.out_dir
                                             : command.out_dir / format("pipeline-{}", k + 1);
    for (std::string& file : write_plan_files(folder, plan, partition_graph(graph, plan))) {
      files.push_back(std::move(file));
    }
  }
  return files;
}

}  // namespace

double deadline_of(const PlanCommand& command) {
  return command.deadline_s > 0 ? command.deadline_s : std::numeric_limits<double>::infinity();
}

std::optional<AimOutcome> aim_of(const PlanCommand& command, const PlanProblem& problem,
                                 const PlannerOptions& options) {
  const bool cost = command.goal == "cost";
  const bool energy = command.goal == "energy";
  if (!cost && !energy && command.deadline_s == 0) return std::nullopt;
  const PlanAim aim = cost                        ? PlanAim::kCost
                      : energy                    ? PlanAim::kEnergy
                      : command.goal == "latency" ? PlanAim::kLatency
                                                  : PlanAim::kPeriod;
  return plan_for_aim(problem, aim, aim_options(command, options));
}

void show_front(const PlanCommand& command, const PlanProblem& problem,
                const PlannerOptions& options) {
  const PlanFront front = plan_front(problem, aim_options(command, options));
  if (!command.svg_file.empty()) write_text_file(command.svg_file, front_to_svg(problem, front));
  write_text(TextStream::kOutput, command.output == OutputStyle::kJson
                                      ? front_to_json(problem, front).dump(2) + "\n"
                                      : front_to_text(problem, front));
}

void plan_several(const PlanCommand& command, const HarmonicGraph& graph,
                  const PlanProblem& problem, const PlannerOptions& options) {
  const PipelineWish wish =
      command.pipelines == "auto" ? PipelineWish::kAuto : PipelineWish::kRunnable;
  const PipelinesOutcome outcome = plan_pipelines(problem, {options.costs, wish, options.work});
  std::vector<std::string> files;
  if (!command.out_dir.empty()) files = write_pipelines(command, graph, outcome);
  const std::string plan = pipelines_to_yaml(outcome);
  switch (command.output) {
    case OutputStyle::kTable: {
      std::string text = plan + "\n" + pipelines_to_text(problem, outcome);
      for (const std::string& file : files) text += format("  -> {}\n", file);
      write_text(TextStream::kOutput, text);
      break;
    }
    case OutputStyle::kJson: {
      Json list = Json::array();
      for (const std::string& file : files) list.push(file);
      Json json = pipelines_to_json(problem, outcome);
      write_text(TextStream::kOutput, json.set("files", std::move(list)).dump(2) + "\n");
      break;
    }
    case OutputStyle::kQuiet: write_text(TextStream::kOutput, plan); break;
  }
}

}  // namespace harmonics::inline in_front
