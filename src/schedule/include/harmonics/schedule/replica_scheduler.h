// ReplicaScheduler: several copies of a graph in one process, which learn together.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/base/owned_state.h>
#include <harmonics/graph/deployment.h>
#include <harmonics/graph/graph.h>
#include <harmonics/runtime/options.h>
#include <harmonics/schedule/learner.h>
#include <harmonics/schedule/pipeline.h>
#include <harmonics/schedule/reduction.h>

namespace harmonics::inline in_schedule {

struct ReplicaOptions {
  /// 1 to kMaxReductionRanks.
  std::size_t replicas = 2;
  ReductionOptions reduction = {};
  /// Where the parts of each replica run: one entry per replica, or none for the defaults.
  std::vector<DeploymentDescriptor> deploy = {};
};

/// Data-parallel training on threads: each replica is a DistributedScheduler of the same parts on a
/// thread of its own, which computes its share of every batch (see
/// DistributedScheduler::join_replicas, docs/guides/data-parallel.md). The weights are the same
/// bits in all replicas and in every run. With the chain's order and one micro-batch per replica
/// they are those of one process that cuts each batch into as many micro-batches as there are
/// replicas, save the running statistics of batch norm, which agree up to rounding. One thread
/// calls it.
///
/// Reports, callbacks, metrics and checkpoints are made once, on the caller's thread. Checkpoints
/// are those of any other scheduler: a run may go on with another number of replicas. What goes
/// wrong in one replica is an Error that names it; the scheduler then only lets its weights be read
/// and saved.
///
///     ReplicaScheduler scheduler({graph}, {.replicas = 4});
///     scheduler.bindProducer("image", images);
///     scheduler.bindProducer("label", labels);
///     scheduler.fit(30);
class ReplicaScheduler : public Learner {
 public:
  ReplicaScheduler(const std::vector<HarmonicGraph>& parts, const ReplicaOptions& replicas,
                   const RuntimeOptions& options = {}, const PipelineOptions& pipeline = {});
  ~ReplicaScheduler() override;
  ReplicaScheduler(ReplicaScheduler&&) noexcept;
  ReplicaScheduler& operator=(ReplicaScheduler&&) noexcept;

  /// Every batch is read once, whatever the number of replicas.
  void bindProducer(const std::string& name, ProducerPtr producer) override;
  /// An Error (kUnimplemented): each replica computes rows of its own, in no order.
  void bindConsumer(const std::string& name, ConsumerPtr consumer) override;

  /// One batch, shared out.
  StepReport step() override;
  FitReport fit(std::int64_t epochs, const FitOptions& options = {}) override;
  void load_checkpoint(const std::filesystem::path& path) override;
  void load_weights(const std::filesystem::path& path,
                    const std::map<std::string, std::string>& names = {}) override;
  /// Of a secure run: what each replica signed last, two lines each. Its chain lies in as many
  /// files as there are replicas, `secure.chain` with ".part0", ".part1", … behind it; verify_chain
  /// takes them together.
  [[nodiscard]] std::string proof() const override;
  void close() override;

  [[nodiscard]] std::size_t replica_count() const;
  /// That of the first replica.
  [[nodiscard]] Trainer& trainer() const override;

 private:
  struct State;
  OwnedState<State> state_;
};

}  // namespace harmonics::inline in_schedule
