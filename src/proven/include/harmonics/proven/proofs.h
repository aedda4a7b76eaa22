// Proofs of inference in parts: what DistributedScheduler, RemoteScheduler, CycleRuntime and
// whoever makes them compute an int8 network with, so that every part proves what it computed
// (docs/guides/custody.md).
//
//     RuntimeOptions options;
//     options.secure.proofs = int8_proofs(load_int8_network("digits.int8"));
//     DistributedScheduler scheduler(partition_graph(graph, 2), deploy, options);
#pragma once

#include <memory>

#include <harmonics/proven/int8_network.h>
#include <harmonics/runtime/stage_prover.h>

namespace harmonics::inline in_proven {

/// What the proof of a part is about. Both are checked by who receives the tensor, and with the
/// chain alone.
enum class ProofKind {
  /// All that the part computes: products, relu, scaling and pooling. What crosses to the next part
  /// is shown in the proofs, which are about each other's numbers; the data that enters, weights
  /// and all that lies inside the parts are hidden. A part holds one layer of the network or more.
  kParts,
  /// The products of the one layer that the part holds, with everything hidden. Sums cross, and who
  /// receives them applies relu and scaling, and compares some rows with the proof.
  kLayers,
};

/// The parts of the graph that the network was made of compute it in integers: the same bits as
/// infer(network, rows). Each part holds layers of the network and what belongs to them (norm,
/// pool, dropout, flatten, wherever it was cut); a part without one is an Error when the scheduler
/// is made, and so is a network that cannot be proven. Training is an Error.
[[nodiscard]] std::shared_ptr<const ProvingStages> int8_proofs(Int8Network network,
                                                               ProofKind kind = ProofKind::kParts);

/// Adds how many labels of the cross_entropy taps these outputs of the network match.
void judge_outputs(const HarmonicGraph& graph, const NamedTensors& batch, const Tensor& outputs,
                   TapReport& report);

}  // namespace harmonics::inline in_proven
