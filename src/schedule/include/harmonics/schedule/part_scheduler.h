// PartScheduler: the parts of a graph that this process runs, all of them, some, or one.
//
// DistributedScheduler and RemoteScheduler say how it is made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <harmonics/base/owned_state.h>
#include <harmonics/graph/deployment.h>
#include <harmonics/graph/graph.h>
#include <harmonics/schedule/learner.h>
#include <harmonics/schedule/reduction.h>
#include <harmonics/schedule/remote_options.h>
#include <harmonics/schedule/replica_company.h>
#include <harmonics/transport/binding.h>

namespace harmonics::inline in_schedule {

class PartGroup;

/// Boundaries whose other end is not here are open until they are bound to where they meet it;
/// nothing waits for another process until the first step. Once other processes were called, an
/// Error ends the run for all of them; then a scheduler only lets its weights be read and saved.
class PartScheduler : public Learner {
 public:
  ~PartScheduler() override;
  PartScheduler(PartScheduler&&) noexcept;
  PartScheduler& operator=(PartScheduler&&) noexcept;

  void bindProducer(const std::string& name, ProducerPtr producer) override;
  void bindConsumer(const std::string& name, ConsumerPtr consumer) override;
  /// Where an open boundary meets its other end; until the first step (or look at the weights).
  void bindProducer(const RemoteBinding& binding);
  void bindConsumer(const RemoteBinding& binding);
  /// The same over an end that was made already (a bus between two threads, a port that was chosen
  /// before): the scheduler takes it over. The end may have a name of its own.
  void bindProducer(const std::string& boundary, TransportPtr end);
  void bindConsumer(const std::string& boundary, TransportPtr end);

  /// Makes this scheduler one of `ends.ranks` replicas that learn together, each a scheduler of the
  /// same parts and settings with the same data bound, in a thread or process of its own
  /// (docs/guides/data-parallel.md). Every replica reads each batch whole and computes its share of
  /// the rows; gradients, losses and running statistics are summed over all before they are used,
  /// so that the weights stay the same bits in all replicas. A batch is cut into `micro_batches`
  /// times `ranks` micro-batches. Reports tell of the whole batch; a bound consumer sees this
  /// replica's rows. Call it once, when all boundaries are bound and before the first step. What
  /// goes wrong in one replica is an Error in all, after which all must be made anew.
  void join_replicas(ReductionEnds ends, const ReductionOptions& reduction = {});
  /// The same with replicas that may go away and come back: a step that one of them was lost in is
  /// computed again by those that are left, which take over its rows. All parts must be here, and
  /// shares must not change by themselves. Files that fit saves are saved by every replica.
  void join_company(std::unique_ptr<ReplicaCompany> company,
                    const ReductionOptions& reduction = {});

  /// With all parts here it loads the checkpoint, if there is one. Otherwise it goes on from the
  /// newest coordinated checkpoint that all parts have; all parts must call it before their first
  /// step. `path` is what FitOptions::checkpoint was: fit writes a file of each part beside it and,
  /// once all parts have theirs, the manifest, so that it names only what is complete. It may also
  /// be a checkpoint of the whole graph; the run may have been cut otherwise. False, with nothing
  /// changed, when all parts are at the beginning: there is no such file, or the path is empty.
  /// Parts that have no step in common are an Error that says what each has.
  bool resume(const std::filesystem::path& path) override;
  void close() override;
  [[nodiscard]] std::string proof() const override;
  [[nodiscard]] Trainer& trainer() const override;

 protected:
  PartScheduler(std::vector<HarmonicGraph> parts, const DeploymentDescriptor& deploy,
                const RemoteOptions& options);
  [[nodiscard]] const PartGroup& group() const { return *group_; }

 private:
  OwnedState<PartGroup> group_;
};

}  // namespace harmonics::inline in_schedule
