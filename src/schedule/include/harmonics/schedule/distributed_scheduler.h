// DistributedScheduler: the parts of a graph in one process, connected by their boundaries.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/data/producer.h>
#include <harmonics/graph/deployment.h>
#include <harmonics/graph/graph.h>
#include <harmonics/runtime/options.h>
#include <harmonics/runtime/trainer.h>
#include <harmonics/schedule/pipeline.h>
#include <harmonics/schedule/reduction.h>

namespace harmonics {

/// Runs parts made by partition_graph or auto_partition, in order, each on its own backend.
/// Outputs, gradients and weights equal those of the uncut graph bit for bit; checkpoints are the
/// same files, so a run may go on in another number of parts. One thread calls it. With several
/// parts and several micro-batches each part learns on a thread of its own (with `options.threads`
/// inside its operations), in the order that `pipeline` says; otherwise, and in inference, the
/// parts work one after another on the caller's thread.
///
/// What goes wrong in one part stops all parts within the step, with an Error that names the part;
/// the weights are those from before the step, and the next step may be tried.
///
///     DistributedScheduler scheduler(partition_graph(graph, 2));
///     scheduler.bindProducer("image", images);
///     scheduler.bindProducer("label", labels);
///     scheduler.fit(30);
class DistributedScheduler {
 public:
  /// `deploy.partitions` is empty or has one entry per part. A boundary whose other end is missing,
  /// a target (parts in other processes) or `secure` is an Error: this version does not have them
  /// yet.
  explicit DistributedScheduler(const std::vector<HarmonicGraph>& parts,
                                const DeploymentDescriptor& deploy = {},
                                const RuntimeOptions& options = {},
                                const PipelineOptions& pipeline = {});
  ~DistributedScheduler();
  DistributedScheduler(DistributedScheduler&&) noexcept;
  DistributedScheduler& operator=(DistributedScheduler&&) noexcept;

  /// A name that no part has, or that is bound already, is an Error that lists what there is.
  void bindProducer(const std::string& name, ProducerPtr producer);
  void bindConsumer(const std::string& name, ConsumerPtr consumer);

  /// Makes this scheduler one of `ends.ranks` replicas that learn together, each a scheduler of the
  /// same graph and settings with the same data bound, in a thread or process of its own
  /// (docs/guides/data-parallel.md). Every replica reads each batch whole and computes its share of
  /// the rows; gradients, losses and running statistics are summed over all before they are used,
  /// so that the weights stay the same bits in all replicas. A batch is cut into `micro_batches`
  /// times `ranks` micro-batches. Reports tell of the whole batch; a bound consumer sees this
  /// replica's rows. Call it once, before the first step. What goes wrong in one replica is an
  /// Error in all, after which all must be made anew.
  void join_replicas(ReductionEnds ends, const ReductionOptions& reduction = {});

  /// One batch through all parts; learns when a part has a training tap.
  StepReport step();
  FitReport fit(std::int64_t epochs, const FitOptions& options = {});
  [[nodiscard]] Evaluation evaluate(const NamedProducers& producers);
  [[nodiscard]] NamedTensors infer(const NamedTensors& inputs);

  void save_checkpoint(const std::filesystem::path& path) const;
  void load_checkpoint(const std::filesystem::path& path);
  void load_weights(const std::filesystem::path& path,
                    const std::map<std::string, std::string>& names = {});

  [[nodiscard]] std::size_t part_count() const;
  /// Parameters and buffers of all parts by name; they share the scheduler's memory.
  [[nodiscard]] NamedTensors parameters() const;
  [[nodiscard]] std::string weights_digest() const;
  [[nodiscard]] const TrainingProgress& progress() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace harmonics
