#include "run_int8.h"

#include <harmonics/base/error.h>
#include <harmonics/proven/proofs.h>

namespace harmonics::inline in_torch_program {

bool proves(SecureMode mode) { return mode == SecureMode::kZk || mode == SecureMode::kNetwork; }

Int8Network open_int8_network(const std::filesystem::path& weights, const HarmonicGraph& graph) {
  if (weights.empty() || !is_int8_network(weights)) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' holds float weights, which cannot be proven: make an int8 network with 'harmonics "
         "quantize' and pass it with --weights",
         weights.string());
  }
  Int8Network network = load_int8_network(weights);
  if (network.graph == graph.name() && graph.producer_index(network.producer)) return network;
  fail(ErrorCode::kInvalidArgument, "'{}' is the int8 network of graph '{}', not of '{}'",
       weights.string(), network.graph, graph.name());
}

std::vector<std::size_t> layer_cuts(const Int8Network& network, const HarmonicGraph& graph,
                                    std::int64_t parts) {
  const auto layers = static_cast<std::int64_t>(network.layers.size());
  if (parts != 1 && parts != layers) {
    fail(ErrorCode::kInvalidArgument,
         "an int8 network has a part per layer: leave --parts out or set it to {}", layers);
  }
  std::vector<std::size_t> first_layers = {0};
  for (std::size_t i = 1; i < network.layers.size(); ++i) {
    first_layers.push_back(graph.layer_index(network.layers[i].name).value());
  }
  return first_layers;
}

bool is_proven_in_parts(const RunCommand& command, std::int64_t parts) {
  if (!proves(command.secure.mode)) return false;
  return command.processes || !command.plan.empty() || !command.deploy.empty() ||
         !command.trace.empty() || (command.secure.mode == SecureMode::kNetwork && parts > 1);
}

Int8Run::Int8Run(const RunCommand& command, const HarmonicGraph& graph,
                 const TrainSettings& settings)
    : graph_(graph), network_(open_int8_network(command.weights, graph)) {
  const bool whole = command.secure.mode == SecureMode::kNetwork;
  static_cast<void>(layer_cuts(network_, graph, settings.parts));
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
  judge_outputs(graph_, batch, outputs, taps);
  return {{network_.consumer, std::move(outputs)}};
}

void Int8Run::close() {
  if (pipeline_) pipeline_->close();
}

}  // namespace harmonics::inline in_torch_program
