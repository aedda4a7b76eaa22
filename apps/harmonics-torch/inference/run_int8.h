// Running an int8 network, proven or not.
#pragma once

#include <memory>

#include <harmonics/graph/graph.h>
#include <harmonics/options/commands.h>
#include <harmonics/proven/int8_network.h>
#include <harmonics/proven/proven_pipeline.h>
#include <harmonics/settings/train_settings.h>

namespace harmonics::inline in_torch_program {

/// Judges rows by their largest output: adds to `report` where the graph has a cross_entropy tap
/// whose target is in the batch.
void judge(const HarmonicGraph& graph, const NamedTensors& batch, const Tensor& outputs,
           TapReport& report);

/// The network of `command.weights` for the graph. One thread.
class Int8Run {
 public:
  /// A network of another graph, or --parts that do not fit, are an Error.
  Int8Run(const RunCommand& command, const HarmonicGraph& graph, const TrainSettings& settings);

  [[nodiscard]] NamedTensors compute(const NamedTensors& batch, TapReport& taps);
  /// Ends the chain of a secure run.
  void close();

 private:
  const HarmonicGraph& graph_;
  Int8Network network_;
  std::unique_ptr<ProvenPipeline> pipeline_;
};

}  // namespace harmonics::inline in_torch_program
