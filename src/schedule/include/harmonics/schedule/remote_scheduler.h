// RemoteScheduler: one part of a graph in this process, the other parts in others.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/base/owned_state.h>
#include <harmonics/data/producer.h>
#include <harmonics/graph/deployment.h>
#include <harmonics/graph/graph.h>
#include <harmonics/schedule/reduction.h>
#include <harmonics/schedule/remote_options.h>
#include <harmonics/schedule/trainer.h>
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
class RemoteScheduler {
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
  ~RemoteScheduler();
  RemoteScheduler(RemoteScheduler&&) noexcept;
  RemoteScheduler& operator=(RemoteScheduler&&) noexcept;

  /// Data that is read, or results that are written, in this process.
  void bindProducer(const std::string& name, ProducerPtr producer);
  void bindConsumer(const std::string& name, ConsumerPtr consumer);
  /// More boundaries, until the first step (or the first look at the weights).
  void bindProducer(const RemoteBinding& binding);
  void bindConsumer(const RemoteBinding& binding);

  /// Makes this part one of several copies, each in a pipeline of its own: every part sums with its
  /// own copies. See DistributedScheduler; call it once all boundaries are bound.
  void join_replicas(ReductionEnds ends, const ReductionOptions& reduction = {});

  /// One batch. A boundary that is not bound is an Error that names it.
  StepReport step();
  /// All parts must fit alike (epochs, patience, checkpoints); where one evaluates, all do, each
  /// with the data of its own producers. Losses and accuracies of epochs and evaluations are those
  /// of the whole run in every part; those of a step are known where the taps are.
  FitReport fit(std::int64_t epochs, const FitOptions& options = {});
  /// Loss and accuracy of the whole run over one pass; all parts must call it at the same point,
  /// each with the data of its own producers.
  [[nodiscard]] Evaluation evaluate(const NamedProducers& producers);
  /// One batch in evaluation mode: what leaves the graph in this part. All parts must call it,
  /// those without data with no inputs.
  [[nodiscard]] NamedTensors infer(const NamedTensors& inputs);

  /// This part's weights and state: see checkpoint.h. All parts must go on from the same step.
  void save_checkpoint(const std::filesystem::path& path) const;
  /// From this part's own file, a checkpoint of the whole graph, or a manifest.
  void load_checkpoint(const std::filesystem::path& path);
  /// Goes on from the newest coordinated checkpoint that all parts have; all parts must call it
  /// before their first step. `path` is what FitOptions::checkpoint was: fit writes a file of each
  /// part beside it and, once all parts have theirs, the manifest, so that it names only what is
  /// complete. It may also be a checkpoint of the whole graph; the run may have been cut otherwise.
  /// False, with nothing changed, when all parts are at the beginning: there is no such file, or
  /// the path is empty. Parts that have no step in common are an Error that says what each has.
  bool resume(const std::filesystem::path& path);
  void load_weights(const std::filesystem::path& path,
                    const std::map<std::string, std::string>& names = {});

  /// See DistributedScheduler.
  void close();
  [[nodiscard]] std::string proof() const;

  [[nodiscard]] const HarmonicGraph& graph() const;
  /// Parameters and buffers of this part by name; they share the scheduler's memory.
  [[nodiscard]] NamedTensors parameters() const;
  [[nodiscard]] std::string weights_digest() const;
  [[nodiscard]] const TrainingProgress& progress() const;
  /// How long this part has waited at its boundaries since it was made, for tensors to come and for
  /// room to send: the rest of the time it was busy.
  [[nodiscard]] Nanoseconds waited() const;

 private:
  struct State;
  OwnedState<State> state_;
};

}  // namespace harmonics::inline in_schedule
