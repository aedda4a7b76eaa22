// harmonics plan: from a graph and measurements to the parts of each host.
#include <algorithm>
#include <ctime>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/graph/harp.h>
#include <harmonics/options/graph_argument.h>
#include <harmonics/place/plan_operators.h>
#include <harmonics/place/plan_partition.h>
#include <harmonics/plan/boundary_bits.h>
#include <harmonics/plan/choice.h>
#include <harmonics/plan/report.h>

#include "plan_aims.h"
#include "plan_files.h"
#include "subcommands.h"

namespace harmonics::inline in_front {
namespace {

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string milliseconds(double seconds) { return format("{:.3f}", seconds * 1e3); }

// What fewer bits bring and cost.
std::string bits_text(const PlanReport& report) {
  double error = 0, packing = 0;
  for (const PlannedStage& stage : report.stages) {
    if (stage.boundary_bits != 0) error = std::max(error, bits_error(stage.boundary_bits));
    packing = std::max(packing, stage.packing_s);
  }
  if (error == 0) {
    return format("every boundary stays exact: fewer bits within the tolerance bring nothing\n");
  }
  return format(
      "exact boundaries would take {} ms; values are off by at most {:.2g} of their row's largest, "
      "packing takes a stage {} ms at most\n",
      milliseconds(report.exact_period_s), error, milliseconds(packing));
}

std::string table_text(const PlanReport& report, bool colour) {
  const bool packs = report.exact_period_s > 0;
  Table table{{{"host"},
               {"type"},
               {"layers", Align::kRight},
               {"compute ms", Align::kRight},
               {"transfer ms", Align::kRight},
               {"memory MB", Align::kRight},
               {"of MB", Align::kRight},
               {"binds"}},
              {}};
  if (packs) table.columns.push_back({"bits on", Align::kRight});
  for (std::size_t k = 0; k < report.stages.size(); ++k) {
    const PlannedStage& stage = report.stages[k];
    const bool slowest = k == report.slowest_stage;
    table.rows.push_back({joined(stage.stage.hosts, " "), stage.type,
                          format("{}-{}", stage.stage.first_layer, stage.stage.last_layer),
                          milliseconds(stage.costs.compute_s), milliseconds(stage.costs.transfer_s),
                          format("{:.1f}", stage.costs.memory_bytes / kBytesPerMegabyte),
                          format("{:.1f}", stage.costs.capacity_bytes / kBytesPerMegabyte),
                          slowest ? format("{}, the bottleneck", stage.binds) : stage.binds});
    if (!packs) continue;
    table.rows.back().push_back(stage.boundary_bits == 0 ? "-"
                                                         : std::to_string(stage.boundary_bits));
  }
  const PlanGoal goal = report.options.goal;
  const double objective = report.outcome.objective_s(goal);
  std::string text = table.text(colour) + "\n";
  text += format("{}: {} ms per micro-batch of {} ({} samples/s), {} ms from end to end\n",
                 report.model, milliseconds(report.outcome.period_s), report.batch_size,
                 as_rate(report.samples_per_s()), milliseconds(report.outcome.latency_s));
  if (packs) text += bits_text(report);
  text += report.outcome.proven
              ? format("no plan has a shorter {} than {} ms: proven\n",
                       goal == PlanGoal::kLatency ? "way" : "period", milliseconds(objective))
              : format("no plan goes below {} ms: at most {:.3f} % are to be gained\n",
                       milliseconds(report.outcome.lower_bound_s), 100 * report.gap());
  if (report.training) text += training_to_text(*report.training, report.batch_size);
  text += noise_to_text(report.noise);
  if (report.alone_is_faster()) {
    text +=
        format("one machine alone is faster: {} makes {} samples/s in batches of {}\n",
               report.alone->host, as_rate(report.alone->samples_per_s), report.alone->batch_size);
  }
  return text;
}

constexpr std::int64_t kUsualBatchSize = 8;

/// 0: whichever of those that were measured is best.
std::int64_t batch_size_of(const PlanCommand& command, const PlanInputs& inputs,
                           const std::string& model) {
  if (command.batch_size) return *command.batch_size;
  const std::vector<ProfileKey> measured = measured_profiles(inputs, model);
  std::vector<std::int64_t> sizes;
  for (const ProfileKey& key : measured) {
    if (key.dtype == command.dtype) sizes.push_back(key.batch_size);
  }
  const bool usual = std::ranges::find(sizes, kUsualBatchSize) != sizes.end();
  return usual || sizes.empty() ? kUsualBatchSize : 0;
}

PlanRequest request_of(const PlanCommand& command, const std::string& model) {
  PlanRequest request;
  request.model = command.model.empty() ? model : command.model;
  request.dtype = command.dtype;
  request.excluded_hosts = command.excluded_hosts;
  return request;
}

PlannerOptions planner_options(const PlanCommand& command) {
  PlannerOptions options;
  options.costs.buffers_in = static_cast<int>(command.buffers_in);
  options.costs.buffers_out = static_cast<int>(command.buffers_out);
  if (command.goal == "latency") options.goal = PlanGoal::kLatency;
  options.replicate = command.replicate;
  return options;
}

// Of a model that was measured for it the time of a batch is told, whether somebody asks or not.
void tell_training(const PlanCommand& command, const PlanProblem& problem, PlanReport& report) {
  if (command.pipeline.empty() && !is_trained(problem)) return;
  TrainingWish wish{.micro_batches = static_cast<std::uint32_t>(command.micro_batches)};
  if (!command.pipeline.empty()) wish.order = pipeline_order_from_name(command.pipeline);
  add_training(report, problem, wish);
}

Json files_json(const std::vector<std::string>& files) {
  Json json = Json::array();
  for (const std::string& file : files) json.push(file);
  return json;
}

void print(const PlanCommand& command, const PlanReport& report, const Plan& plan,
           const std::vector<std::string>& files, const AimOutcome* aimed) {
  const double deadline = deadline_of(command);
  switch (command.output) {
    case OutputStyle::kTable: {
      std::string text = plan_to_yaml(plan) + "\n";
      text += table_text(report, wants_colour(TextStream::kOutput));
      if (aimed != nullptr) text += aim_to_text(*aimed, deadline);
      for (const std::string& file : files) text += format("  -> {}\n", file);
      write_text(TextStream::kOutput, text);
      break;
    }
    case OutputStyle::kJson: {
      Json json = report_to_json(report);
      json.set("files", files_json(files));
      if (aimed != nullptr) json.set("aim", aim_to_json(*aimed, deadline));
      write_text(TextStream::kOutput, json.dump(2) + "\n");
      break;
    }
    case OutputStyle::kQuiet: write_text(TextStream::kOutput, plan_to_yaml(plan)); break;
  }
}

}  // namespace

int plan(const PlanCommand& command) {
  const GraphArgument argument = open_graph_argument(command.graph, command.axes);
  PlanRequest request = request_of(command, argument.model);
  const PlannerOptions options = planner_options(command);
  expect_plan_inputs(command);
  const PlanInputs inputs = read_plan_inputs(
      {command.models_file, command.types_file, command.hosts_file, command.links_file});
  check_planned_layers(inputs, request.model, command, argument.graph);
  const double start = cpu_seconds();
  request.batch_size = batch_size_of(command, inputs, request.model);
  const ProfileFreedom freedom{.batch_size = request.batch_size == 0, .dtype = false};
  try {
    ProfilePlan best = plan_best_profile(inputs, request, options, freedom);
    if (command.pipelines != "one") {
      plan_several(command, argument.graph, best.problem, options);
      return kExitDone;
    }
    if (command.front) {
      show_front(command, best.problem, options);
      return kExitDone;
    }
    const std::optional<AimOutcome> aimed = aim_of(command, best.problem, options);
    if (aimed) best.outcome = outcome_of(*aimed);
    std::optional<PackedPlan> packed;
    if (command.boundary_bits) {
      const BitsWish wish{*command.boundary_bits, command.boundary_tolerance};
      packed = choose_bits(best.problem, best.outcome, options, wish, inputs.types);
    }
    const Plan plan =
        name_hosts(best.problem, packed ? packed->outcome.placement : best.outcome.placement);
    PlanReport report = packed ? packed_report(*packed, best.problem, options, plan)
                               : make_report(best.problem, options, std::move(best.outcome), plan);
    tell_training(command, best.problem, report);
    report.tried = std::move(best.tried);
    report.alone = fastest_alone(inputs, request);
    report.plan_seconds = cpu_seconds() - start;
    const std::vector<HarmonicGraph> parts = partition_graph(argument.graph, plan);
    std::vector<std::string> files;
    if (!command.out_dir.empty()) files = write_plan_files(command.out_dir, plan, parts);
    if (!command.dag_file.empty()) {
      write_text_file(command.dag_file,
                      operator_graph_to_json(operator_graph_of(argument.graph, best.problem)));
      files.push_back(command.dag_file.string());
    }
    print(command, report, plan, files, aimed ? &*aimed : nullptr);
    return kExitDone;
  } catch (const NoFeasiblePlan& reason) {
    write_text(TextStream::kError, format("harmonics: {}\n", std::string_view(reason.what())));
    return kExitNoPlan;
  }
}

}  // namespace harmonics::inline in_front
