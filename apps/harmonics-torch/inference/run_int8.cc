#include "run_int8.h"

#include <algorithm>

#include <harmonics/base/error.h>

namespace harmonics::inline in_torch_program {

void judge(const HarmonicGraph& graph, const NamedTensors& batch, const Tensor& outputs,
           TapReport& report) {
  for (const TrainingTap& tap : graph.taps()) {
    const auto target = batch.find(tap.target);
    if (tap.loss != "cross_entropy" || target == batch.end() || outputs.shape().size() != 2) {
      continue;
    }
    const std::span<const std::int64_t> labels = target->second.values<std::int64_t>();
    const std::span<const float> scores = outputs.values<float>();
    const auto width = static_cast<std::size_t>(outputs.shape()[1]);
    for (std::size_t i = 0; i < labels.size() && (i + 1) * width <= scores.size(); ++i) {
      const auto row = scores.subspan(i * width, width);
      ++report.judged;
      if (std::ranges::max_element(row) - row.begin() == labels[i]) ++report.correct;
    }
  }
}

Int8Run::Int8Run(const RunCommand& command, const HarmonicGraph& graph,
                 const TrainSettings& settings)
    : graph_(graph), network_(load_int8_network(command.weights)) {
  if (network_.graph != graph.name() || !graph.producer_index(network_.producer)) {
    fail(ErrorCode::kInvalidArgument, "'{}' is the int8 network of graph '{}', not of '{}'",
         command.weights.string(), network_.graph, graph.name());
  }
  const bool whole = command.secure.mode == SecureMode::kNetwork;
  const auto layers = static_cast<std::int64_t>(network_.layers.size());
  if (whole && settings.parts != 1) {
    fail(ErrorCode::kInvalidArgument,
         "--secure=network proves the network as one part: leave --parts out");
  }
  if (settings.parts != 1 && settings.parts != layers) {
    fail(ErrorCode::kInvalidArgument,
         "an int8 network has a part per layer: leave --parts out or set it to {}", layers);
  }
  if (command.secure.mode == SecureMode::kNone) return;
  if (command.secure.mode == SecureMode::kChain) {
    fail(ErrorCode::kInvalidArgument,
         "an int8 network proves what it computes: pass --secure=zk (each layer) or "
         "--secure=network (all of it)");
  }
  if (command.secure.proof.empty()) {
    fail(ErrorCode::kInvalidArgument, "--secure={} needs --proof: the file for chain and proofs",
         whole ? "network" : "zk");
  }
  ProvenOptions options;
  options.keys = {
      own_signing_key(command.secure.keys.empty() ? default_key_folder() : command.secure.keys,
                      command.secure.key)};
  options.chain = command.secure.proof;
  options.whole = whole;
  pipeline_ = std::make_unique<ProvenPipeline>(network_, options);
}

NamedTensors Int8Run::compute(const NamedTensors& batch, TapReport& taps) {
  const Tensor& rows = batch.at(network_.producer);
  Tensor outputs = pipeline_ ? pipeline_->infer(rows) : infer(network_, rows);
  judge(graph_, batch, outputs, taps);
  return {{network_.consumer, std::move(outputs)}};
}

void Int8Run::close() {
  if (pipeline_) pipeline_->close();
}

}  // namespace harmonics::inline in_torch_program
