// harmonics run: the outputs of a trained graph for all rows of its data.
#include <algorithm>
#include <chrono>
#include <functional>

#include <harmonics/base/clock.h>
#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/console/terminal.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/csv_consumer.h>
#include <harmonics/graph/partition.h>
#include <harmonics/options/command_line.h>
#include <harmonics/proven/int8_network.h>
#include <harmonics/schedule/checkpoint.h>
#include <harmonics/schedule/secure_row.h>
#include <harmonics/schedule/secure_run.h>
#include <harmonics/schedule/stage_row.h>

#include "bound_data.h"
#include "interrupt.h"
#include "run_int8.h"
#include "run_report.h"
#include "subcommands.h"
#include "training_job.h"

namespace harmonics::inline in_torch_program {
namespace {

constexpr std::string_view kCsvScheme = "csv:";

using NamedConsumers = std::map<std::string, ConsumerPtr, std::less<>>;

NamedConsumers open_outputs(const HarmonicGraph& graph, const std::vector<Binding>& outputs) {
  NamedConsumers consumers;
  for (const Binding& output : outputs) {
    const auto node = std::ranges::find(graph.consumers(), output.name, &ConsumerNode::name);
    if (node == graph.consumers().end()) {
      fail(ErrorCode::kNotFound, "--out {}: the graph has no such consumer; it has: {}",
           output.name, listed(graph.consumers(), &ConsumerNode::name));
    }
    if (!output.spec.starts_with(kCsvScheme) || output.spec.size() == kCsvScheme.size()) {
      fail(ErrorCode::kInvalidArgument, "--out {}: '{}' is not of the form csv:PATH", output.name,
           output.spec);
    }
    CsvConsumerOptions options;
    options.unequal_rows = !graph.named_extents(node->input).empty();
    consumers[output.name] =
        std::make_shared<CsvConsumer>(output.spec.substr(kCsvScheme.size()), std::move(options));
  }
  return consumers;
}

// Producers that layers use must be bound; targets of taps only all together, to be measured.
std::vector<std::string> needed_producers(const HarmonicGraph& graph, bool measured) {
  std::vector<std::string> needed;
  for (const ProducerNode& node : graph.producers()) {
    const bool feeds = std::ranges::any_of(graph.layers(), [&](const LayerNode& layer) {
      return std::ranges::find(layer.inputs, node.name) != layer.inputs.end();
    });
    const bool leaves = std::ranges::any_of(
        graph.consumers(), [&](const ConsumerNode& sink) { return sink.input == node.name; });
    if (feeds || leaves || measured || !node.shape) needed.push_back(node.name);
  }
  return needed;
}

bool has_all_targets(const HarmonicGraph& graph, const NamedSources& sources) {
  return !graph.taps().empty() && std::ranges::all_of(graph.taps(), [&](const TrainingTap& tap) {
    return sources.contains(tap.target) || graph.layer_index(tap.target).has_value();
  });
}

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

// Sources of one length, viewed as their producers are declared.
NamedProducers batches_of(const HarmonicGraph& graph, const NamedSources& sources,
                          std::int64_t batch_size) {
  if (sources.empty()) {
    fail(ErrorCode::kFailedPrecondition, "graph '{}' takes no data: there are no rows to run over",
         graph.name());
  }
  NamedProducers producers;
  const auto& [first, first_source] = *sources.begin();
  for (const auto& [name, source] : sources) {
    const TensorSpec data = source->sample_spec();
    const ProducerNode& node = graph.producers()[graph.producer_index(name).value()];
    if (!sample_view(node, data.shape) || is_floating(data.dtype) != is_floating(node.dtype)) {
      fail(ErrorCode::kInvalidArgument,
           "producer '{}' is declared as {} {}, its data has samples of {}", name,
           dtype_name(node.dtype), graph.shape_text_of(name), spec_text(data));
    }
    if (source->row_count() != first_source->row_count()) {
      fail(ErrorCode::kInvalidArgument, "the data of '{}' has {} rows, that of '{}' has {}", first,
           first_source->row_count(), name, source->row_count());
    }
    producers[name] =
        std::make_shared<BatchProducer>(source, batch_size, batch_length(graph, name));
  }
  return producers;
}

RuntimeOptions run_options(const TrainSettings& settings, const SecureFlags& secure) {
  RuntimeOptions options;
  options.maps_weights = true;  // nothing trains
  options.threads = static_cast<int>(settings.threads);
  options.backend = backend_from_name(settings.backend);
  options.secure = secure_options(secure);
  return options;
}

StageRow make_row(const HarmonicGraph& graph, const TrainSettings& settings,
                  const RuntimeOptions& options) {
  const auto parts = static_cast<std::size_t>(settings.parts);
  return StageRow(partition_graph(graph, parts), std::vector(parts, options));
}

/// What is run over.
struct Rows {
  NamedProducers producers;
  bool measured = false;
  InterruptWatch& watch;
};

// Computes one batch and adds what its taps saw.
using Compute = std::function<NamedTensors(const NamedTensors& batch, TapReport& taps)>;

RunReport compute(const Compute& batch_outputs, const HarmonicGraph& graph, const Rows& rows,
                  const NamedConsumers& consumers) {
  RunReport report;
  TapReport taps;
  const SteadyClock clock;
  const Nanoseconds started = clock.now();
  while (const std::optional<NamedTensors> batch = pull(graph, rows.producers)) {
    const NamedTensors outputs = batch_outputs(*batch, taps);
    report.add_rows(outputs, batch->begin()->second.shape().at(0));
    for (const auto& [name, consumer] : consumers) consumer->push(outputs.at(name));
    rows.watch.step_done();
    rows.watch.check(format("after {} rows; no output was written", report.rows));
  }
  for (const auto& [name, consumer] : consumers) consumer->finish();
  report.seconds = in_seconds(clock.now() - started);
  if (rows.measured && report.rows > 0 && taps.loss_sum != 0)
    report.loss = taps.loss_sum / static_cast<double>(report.rows);
  if (taps.judged > 0) {
    report.accuracy = static_cast<double>(taps.correct) / static_cast<double>(taps.judged);
  }
  return report;
}

RunReport compute_float(const RunCommand& command, const HarmonicGraph& graph,
                        const TrainSettings& settings, const Rows& rows) {
  if (command.secure.mode == SecureMode::kZk) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' holds float weights, which cannot be proven: make an int8 network with 'harmonics "
         "quantize' and pass it with --weights",
         command.weights.string());
  }
  const RuntimeOptions options = run_options(settings, command.secure);
  StageRow row = make_row(graph, settings, options);
  load_weights(command.weights, row);
  if (options.secure.on) make_secure(row, options);
  RunReport report = compute(
      [&](const NamedTensors& batch, TapReport& taps) {
        BatchReport done;
        NamedTensors outputs = rows.measured ? row.evaluate(batch, done) : row.infer(batch);
        taps += done.taps;
        return outputs;
      },
      graph, rows, open_outputs(graph, command.outputs));
  if (options.secure.on) {
    row.custody()->close(row.stages(), 0);
    report.proof = row.custody()->proof();
    report.chain = command.secure.proof.string();
  }
  return report;
}

RunReport compute_int8(const RunCommand& command, const HarmonicGraph& graph,
                       const TrainSettings& settings, const Rows& rows) {
  Int8Run int8(command, graph, settings);
  RunReport report =
      compute([&](const NamedTensors& batch, TapReport& taps) { return int8.compute(batch, taps); },
              graph, rows, open_outputs(graph, command.outputs));
  int8.close();
  return report;
}

int run_watched(const RunCommand& given, InterruptWatch& watch) {
  const HarpDocument document = load_harp_document(given.file);
  RunCommand command = given;
  command.weights = merge_weights(document, command.file, command.weights);
  if (command.weights.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' names no weights: give --weights FILE, or write 'weights {{ file = \"…\"; }}' into "
         "it",
         command.file.string());
  }
  const TrainSettings settings = merge_settings(document, command.file, command.settings);
  const auto bindings = merge_bindings(document, command.file, command.bindings);
  const NamedSources sources = open_sources(document.graph, bindings);
  const bool measured = has_all_targets(document.graph, sources);
  require_sources(document.graph, sources, needed_producers(document.graph, measured));
  const HarmonicGraph graph = resolve_graph(document.graph.with_fixed_axes(command.axes), sources);
  const Rows rows{batches_of(graph, with_checked_labels(graph, sources), settings.batch_size),
                  measured, watch};
  watch.check("before the first row; no output was written");
  RunReport report = is_int8_network(command.weights)
                         ? compute_int8(command, graph, settings, rows)
                         : compute_float(command, graph, settings, rows);
  report.graph = graph.name();
  for (const Binding& output : command.outputs) {
    report.files[output.name] = output.spec.substr(kCsvScheme.size());
  }
  switch (command.output) {
    case OutputStyle::kTable:
      write_text(TextStream::kOutput, report_text(report, wants_colour(TextStream::kOutput)));
      break;
    case OutputStyle::kJson:
      write_text(TextStream::kOutput, report_json(report).dump() + "\n");
      break;
    case OutputStyle::kQuiet:
      if (report.accuracy) write_text(TextStream::kOutput, format("{}\n", *report.accuracy));
      break;
  }
  return kExitDone;
}

}  // namespace

int run(const RunCommand& command) {
  InterruptWatch watch(command.output != OutputStyle::kQuiet);
  return run_interruptible(watch, [&] { return run_watched(command, watch); });
}

}  // namespace harmonics::inline in_torch_program
