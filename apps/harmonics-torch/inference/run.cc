// harmonics run: the outputs of a trained graph for all rows of its data.
#include <filesystem>
#include <optional>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/proven/int8_network.h>

#include "inference_job.h"
#include "interrupt.h"
#include "run_int8.h"
#include "run_outputs.h"
#include "run_report.h"
#include "run_stream.h"
#include "serve_model.h"
#include "subcommands.h"

namespace harmonics::inline in_torch_program {
namespace {

// The next batch of every source in the declared shapes; nothing at the end.
std::optional<NamedTensors> pull(const HarmonicGraph& graph, const NamedProducers& producers) {
  NamedTensors batch;
  for (const auto& [name, producer] : producers) {
    const std::optional<Tensor> rows = producer->next();
    if (!rows) return std::nullopt;
    const ProducerNode& node = graph.producers()[graph.producer_index(name).value()];
    const Shape& given = rows->shape();
    Shape shape = sample_view(node, Shape(given.begin() + 1, given.end())).value_or(*node.shape);
    shape.insert(shape.begin(), given.at(0));
    batch.emplace(name, rows->reshaped(std::move(shape)));
  }
  return batch;
}

RunReport run_int8(const InferenceJob& job, InterruptWatch& watch) {
  const RunCommand& command = job.command;
  if (command.processes || !command.plan.empty() || !command.deploy.empty() ||
      !command.trace.empty()) {
    fail(ErrorCode::kUnimplemented,
         "'{}' is an int8 network, which runs in one process unless its parts prove what they "
         "compute: leave out --processes, --plan, --deploy and --trace, or pass --secure=network",
         command.weights.string());
  }
  Int8Run int8(command, job.graph, job.settings);
  RunTally tally(job, open_outputs(job.graph, command.outputs), watch);
  std::int64_t number = 0;
  while (const std::optional<NamedTensors> data = pull(job.graph, job.producers)) {
    StreamedBatch batch{number++, data->begin()->second.shape().at(0), {}, {}};
    batch.outputs = int8.compute(*data, batch.taps);
    for (const auto& [name, consumer] : tally.consumers()) consumer->push(batch.outputs.at(name));
    tally.add(batch);
    tally.check_interrupt();
  }
  for (const auto& [name, consumer] : tally.consumers()) consumer->finish();
  RunReport report = tally.report();
  int8.close();
  return report;
}

RunReport run_parts(const InferenceJob& job, InterruptWatch& watch) {
  const RunCommand& command = job.command;
  if (!command.trace.empty()) std::filesystem::create_directories(command.trace);
  return command.processes ? run_in_processes(job, watch) : run_here(job, watch);
}

// A stage that hosts are to take turns at has one thread here.
void say_replicated(const InferenceJob& job) {
  const std::vector<PlanStage>& stages = job.plan.plan.stages;
  for (std::size_t part = 0; part < stages.size(); ++part) {
    const std::size_t hosts = stages[part].hosts.size();
    if (hosts == 1 || job.command.processes || job.command.output == OutputStyle::kQuiet) continue;
    write_text(
        TextStream::kError,
        format("part {} is planned for {} hosts that take turns ({}): in one process it runs "
               "once; add --processes\n",
               part, hosts, listed(stages[part].hosts)));
  }
}

int run_watched(const RunCommand& command, InterruptWatch& watch) {
  const InferenceJob job = prepare_inference(command);
  say_replicated(job);
  watch.check("before the first row; no output was written");
  const bool is_int8 = !job.command.weights.empty() && is_int8_network(job.command.weights);
  const bool is_alone = is_int8 && !is_proven_in_parts(job.command, job.settings.parts);
  const RunReport report = is_alone ? run_int8(job, watch) : run_parts(job, watch);
  print_report(report, command.output);
  return kExitDone;
}

}  // namespace

int run(const RunCommand& command) {
  InterruptWatch watch(command.output != OutputStyle::kQuiet);
  if (command.serve.on()) return serve_model(command, watch);
  return run_interruptible(watch, [&] { return run_watched(command, watch); });
}

}  // namespace harmonics::inline in_torch_program
