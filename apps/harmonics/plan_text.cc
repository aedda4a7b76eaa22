// harmonics plan --goal tokens, first-token or both: a language model over machines.
#include <ctime>

#include <harmonics/base/error.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/models/import_model.h>
#include <harmonics/options/graph_argument.h>
#include <harmonics/plan/generation.h>

#include "plan_files.h"
#include "subcommands.h"

namespace harmonics::inline in_front {
namespace {

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// A .harp file, or a model as others keep it.
HarmonicGraph text_graph(const std::filesystem::path& model) {
  if (model.extension() == ".harp" || !std::filesystem::exists(model)) {
    return open_graph_argument(model, {}).graph;
  }
  return import_model(model).graph;
}

void check_context(const PlanCommand& command, const HarmonicGraph& graph) {
  if (graph.axes().empty() || command.context <= graph.axes().front().ceiling) return;
  fail(ErrorCode::kInvalidArgument, "--context {}: '{}' takes up to {} tokens", command.context,
       graph.name(), graph.axes().front().ceiling);
}

GenerationWish wish_of(const PlanCommand& command, const std::string& model) {
  GenerationWish wish;
  wish.hosts.model = model;
  wish.hosts.excluded_hosts = command.excluded_hosts;
  wish.context = command.context;
  wish.sequences = command.sequences;
  wish.prompt = command.prompt;
  wish.chunk = command.chunk;
  return wish;
}

GenerationOptions options_of(const PlanCommand& command) {
  GenerationOptions options;
  options.goal = command.goal == "both"          ? GenerationGoal::kBoth
                 : command.goal == "first-token" ? GenerationGoal::kFirstToken
                                                 : GenerationGoal::kTokens;
  options.tolerance = command.tolerance;
  options.buffers_in = static_cast<int>(command.buffers_in);
  options.buffers_out = static_cast<int>(command.buffers_out);
  return options;
}

std::string table_text(const GenerationReport& report, bool colour) {
  Table table{{{"host"},
               {"type"},
               {"layers", Align::kRight},
               {"step ms", Align::kRight},
               {"chunk ms", Align::kRight},
               {"transfer ms", Align::kRight},
               {"memory MB", Align::kRight},
               {"cache MB", Align::kRight},
               {"of MB", Align::kRight}},
              {}};
  const auto megabytes = [](double bytes) { return format("{:.1f}", bytes / kBytesPerMegabyte); };
  for (std::size_t k = 0; k < report.stages.size(); ++k) {
    const GenerationReport::Stage& stage = report.stages[k];
    const PlanStage& planned = report.plan.stages[k];
    table.rows.push_back({planned.hosts.front(), stage.type,
                          format("{}-{}", planned.first_layer, planned.last_layer),
                          format("{:.3f}", stage.decode.compute_s * 1e3),
                          format("{:.3f}", stage.prefill.compute_s * 1e3),
                          format("{:.3f}", stage.decode.transfer_s * 1e3),
                          megabytes(stage.decode.memory_bytes), megabytes(stage.cache_bytes),
                          megabytes(stage.decode.capacity_bytes)});
  }
  return table.text(colour) + "\n";
}

void print(const GenerationReport& report, OutputStyle output) {
  switch (output) {
    case OutputStyle::kTable:
      write_text(TextStream::kOutput, plan_to_yaml(report.plan) + "\n" +
                                          table_text(report, wants_colour(TextStream::kOutput)) +
                                          generation_to_text(report));
      break;
    case OutputStyle::kJson:
      write_text(TextStream::kOutput, generation_to_json(report).dump(2) + "\n");
      break;
    case OutputStyle::kQuiet: write_text(TextStream::kOutput, plan_to_yaml(report.plan)); break;
  }
}

}  // namespace

int plan_text(const PlanCommand& command) {
  const HarmonicGraph graph = text_graph(command.graph);
  check_context(command, graph);
  expect_plan_inputs(command);
  const PlanInputs inputs = read_plan_inputs(
      {command.models_file, command.types_file, command.hosts_file, command.links_file});
  const double start = processor_seconds();
  const std::string name = command.model.empty() ? graph.name() : command.model;
  const GenerationModel model(inputs, wish_of(command, name));
  check_planned_layers(inputs, model.wish().hosts.model, command, graph);
  const GenerationOptions options = options_of(command);
  try {
    const GenerationOutcome outcome = plan_generation(model, options);
    GenerationReport report = make_generation_report(model, options, outcome);
    report.model = graph.name();  // whoever generates asks for it by that name
    if (command.explain) report.explanation = explain_generation(model, report);
    report.plan_seconds = processor_seconds() - start;
    print(report, command.output);
    return kExitDone;
  } catch (const NoFeasiblePlan& reason) {
    write_text(TextStream::kError, format("harmonics: {}\n", std::string_view(reason.what())));
    return kExitNoPlan;
  }
}

}  // namespace harmonics::inline in_front
