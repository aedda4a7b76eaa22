// RemoteScheduler: one part of a graph in this process, the other parts in others.
#pragma once

#include <vector>

#include <harmonics/graph/deployment.h>
#include <harmonics/graph/graph.h>
#include <harmonics/schedule/part_scheduler.h>
#include <harmonics/schedule/remote_options.h>
#include <harmonics/transport/binding.h>

namespace harmonics::inline in_schedule {

/// Runs one part, made by partition_graph or by hand. Together the parts compute what the uncut
/// graph computes, bit for bit: each process reads its own data in the run's one sample order,
/// tensors and gradients cross the boundaries, gradients are clipped by the norm of all parts.
///
///     std::vector<RemoteBinding> enter = {{"hidden@1", "gpu-box", 9000}};
///     RemoteScheduler scheduler(part, enter, {});
///     scheduler.bindProducer("label", labels);
///     scheduler.fit(30);
///
/// Nothing waits for another process until the first step, which waits `first_contact`. An epoch
/// ends with the data that is bound here, or, in a part that other parts feed, when they say so.
/// What goes wrong in one part is an Error in all: in the others one that names the boundary whose
/// other end went away. After it a scheduler only lets its weights be read and saved. One thread at
/// a time.
///
/// All parts must fit alike (epochs, patience, checkpoints); where one evaluates, all do, each with
/// the data of its own producers. Losses and accuracies of epochs and evaluations are those of the
/// whole run in every part; those of a step are known where the taps are. `evaluate` and `infer`
/// too must be called by all parts at the same point, by those without data with no inputs; infer
/// gives what leaves the graph in this part. A checkpoint that is saved here holds this part;
/// loaded may be that, one of the whole graph, or a manifest, and all parts must go on from the
/// same step.
class RemoteScheduler : public PartScheduler {
 public:
  /// `producers` bind tensors that enter the part, `consumers` those that leave it. A name that the
  /// part does not have, or that is bound twice, is an Error that lists what there is;
  /// `deploy.partitions` is empty or has one entry, whose target is where the boundaries meet that
  /// are not bound otherwise. With `deploy.secure`, which must be set in all parts or in none,
  /// every tensor on a boundary is signed with this part's key and checked with the sender's, which
  /// must be in the folder `options.runtime.secure.keys`; each process keeps a chain of its own,
  /// which are verified together.
  RemoteScheduler(HarmonicGraph part, const std::vector<RemoteBinding>& producers,
                  const std::vector<RemoteBinding>& consumers,
                  const DeploymentDescriptor& deploy = {}, const RemoteOptions& options = {});

  [[nodiscard]] const HarmonicGraph& graph() const;
  /// How long this part has waited at its boundaries since it was made, for tensors to come and for
  /// room to send: the rest of the time it was busy.
  [[nodiscard]] Nanoseconds waited() const;
};

}  // namespace harmonics::inline in_schedule
