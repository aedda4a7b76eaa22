// Running an int8 network, proven or not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/options/commands.h>
#include <harmonics/proven/int8_network.h>
#include <harmonics/proven/proven_pipeline.h>
#include <harmonics/settings/train_settings.h>

namespace harmonics::inline in_torch_program {

/// Whether a run of this mode proves what it computes.
[[nodiscard]] bool proves(SecureMode mode);
/// The int8 network in that file; float weights, or the network of another graph, are an Error.
[[nodiscard]] Int8Network open_int8_network(const std::filesystem::path& weights,
                                            const HarmonicGraph& graph);
/// Where the graph is cut for a part per layer of the network. Another number of parts than 1 (not
/// said) or that of the layers is an Error.
[[nodiscard]] std::vector<std::size_t> layer_cuts(const Int8Network& network,
                                                  const HarmonicGraph& graph, std::int64_t parts);
/// Whether it takes schedulers to run this: several parts that prove, or processes.
[[nodiscard]] bool is_proven_in_parts(const RunCommand& command, std::int64_t parts);

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
