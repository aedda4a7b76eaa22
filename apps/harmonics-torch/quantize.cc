// harmonics quantize: an int8 network from float weights, and what it costs in accuracy.
#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/console/terminal.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/options/command_line.h>
#include <harmonics/options/graph_argument.h>
#include <harmonics/proven/int8_network.h>
#include <harmonics/proven/proofs.h>
#include <harmonics/schedule/checkpoint.h>
#include <harmonics/schedule/training_data.h>

#include "inference/run_int8.h"
#include "subcommands.h"

namespace harmonics::inline in_torch_program {
namespace {

/// Rows that ranges are taken from.
constexpr std::int64_t kCalibrationRows = 1024;

struct Comparison {
  std::int64_t rows = 0;
  std::int64_t agreed = 0;
  TapReport float_taps;
  TapReport int8_taps;

  [[nodiscard]] static double share(std::int64_t part, std::int64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  }
};

Tensor shaped(const HarmonicGraph& graph, const std::string& producer, const Tensor& rows) {
  Shape shape = graph.spec(producer).shape;
  shape.insert(shape.begin(), rows.shape().at(0));
  return rows.reshaped(std::move(shape));
}

Tensor calibration_rows(const HarmonicGraph& graph, const NamedProducers& producers,
                        const std::string& name) {
  std::vector<Tensor> batches;
  std::int64_t rows = 0;
  while (rows < kCalibrationRows) {
    const std::optional<Tensor> batch = producers.at(name)->next();
    if (!batch) break;
    batches.push_back(shaped(graph, name, *batch));
    rows += batch->shape().at(0);
  }
  if (batches.empty()) fail(ErrorCode::kFailedPrecondition, "there is no data to calibrate with");
  return concat_rows(batches);
}

std::int64_t winner(std::span<const float> row) {
  return std::ranges::max_element(row) - row.begin();
}

void compare_batch(StageRow& row, const HarmonicGraph& graph, const Int8Network& network,
                   const NamedTensors& batch, Comparison& comparison) {
  const Tensor expected = row.infer(batch).at(network.consumer);
  const Tensor is = infer(network, batch.at(network.producer));
  judge_outputs(graph, batch, expected, comparison.float_taps);
  judge_outputs(graph, batch, is, comparison.int8_taps);
  const auto rows = static_cast<std::size_t>(is.shape()[0]);
  const std::size_t width = is.values<float>().size() / rows;
  for (std::size_t i = 0; i < rows; ++i) {
    ++comparison.rows;
    comparison.agreed += winner(expected.values<float>().subspan(i * width, width)) ==
                                 winner(is.values<float>().subspan(i * width, width))
                             ? 1
                             : 0;
  }
}

Comparison compare(StageRow& row, const HarmonicGraph& graph, const Int8Network& network,
                   const NamedProducers& producers) {
  Comparison comparison;
  while (true) {
    NamedTensors batch;
    for (const auto& [name, producer] : producers) {
      const std::optional<Tensor> rows = producer->next();
      if (!rows) return comparison;
      batch.emplace(name, shaped(graph, name, *rows));
    }
    compare_batch(row, graph, network, batch, comparison);
  }
}

Json report_json(const Int8Network& network, const Comparison& c) {
  Json json;
  json.set("graph", network.graph).set("layers", static_cast<std::int64_t>(network.layers.size()));
  json.set("rows", c.rows).set("agreement", Comparison::share(c.agreed, c.rows));
  if (c.float_taps.judged > 0) {
    json.set("float_accuracy", Comparison::share(c.float_taps.correct, c.float_taps.judged));
    json.set("int8_accuracy", Comparison::share(c.int8_taps.correct, c.int8_taps.judged));
  }
  return json;
}

std::string report_text(const Int8Network& network, const Comparison& c) {
  std::string text =
      format("'{}': {} layers in int8; on {} rows the same answer in {:.2f} %\n", network.graph,
             network.layers.size(), c.rows, 100 * Comparison::share(c.agreed, c.rows));
  if (c.float_taps.judged > 0) {
    text += format("accuracy: float {:.2f} %, int8 {:.2f} %\n",
                   100 * Comparison::share(c.float_taps.correct, c.float_taps.judged),
                   100 * Comparison::share(c.int8_taps.correct, c.int8_taps.judged));
  }
  return text;
}

}  // namespace

int quantize(const QuantizeCommand& command) {
  const HarpDocument document = open_graph_document(command.file);
  const TrainSettings settings = merge_settings(document, command.file, {});
  const auto bindings = merge_bindings(document, command.file, command.bindings);
  const NamedSources sources = open_sources(document.graph, bindings);
  if (document.graph.layers().empty()) {
    fail(ErrorCode::kInvalidArgument, "the graph of '{}' has no layers", command.file.string());
  }
  const std::string input = document.graph.layers().front().inputs.at(0);
  require_sources(document.graph, sources, std::vector<std::string>{input});
  const HarmonicGraph graph = resolve_graph(document.graph, sources);
  const TrainingData data = make_training_data(graph, sources, settings);
  const std::filesystem::path weights = merge_weights(document, command.file, command.weights);
  if (weights.empty()) {
    fail(ErrorCode::kInvalidArgument, "'{}' names no weights: give --weights FILE",
         command.file.string());
  }
  StageRow row({graph}, {RuntimeOptions{}});
  load_weights(weights, row);
  const Int8Network network =
      quantize(graph, row.parameters(), calibration_rows(graph, data.train, input));
  save_int8_network(command.out, network);
  NamedProducers measured = data.test;
  if (measured.empty()) {
    for (const auto& [name, source] : sources) {
      measured[name] = std::make_shared<BatchProducer>(source, settings.batch_size);
    }
  }
  const Comparison comparison = compare(row, graph, network, measured);
  switch (command.output) {
    case OutputStyle::kTable:
      write_text(TextStream::kOutput, report_text(network, comparison));
      break;
    case OutputStyle::kJson:
      write_text(TextStream::kOutput, report_json(network, comparison).dump() + "\n");
      break;
    case OutputStyle::kQuiet: break;
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_torch_program
