// DistributedScheduler: the parts of a graph in one process, connected by their boundaries.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/base/owned_state.h>
#include <harmonics/data/producer.h>
#include <harmonics/graph/deployment.h>
#include <harmonics/graph/graph.h>
#include <harmonics/runtime/options.h>
#include <harmonics/schedule/pipeline.h>
#include <harmonics/schedule/reduction.h>
#include <harmonics/schedule/remote_options.h>
#include <harmonics/schedule/trainer.h>
#include <harmonics/transport/binding.h>

namespace harmonics::inline in_schedule {

/// Runs parts made by partition_graph or auto_partition, in order, each on its own backend.
/// Outputs, gradients and weights equal those of the uncut graph bit for bit; checkpoints are the
/// same files, so a run may go on in another number of parts. One thread calls it. Several parts
/// work on several micro-batches (or, in inference, batches) at the same time, each part on a
/// thread of its own with `options.threads` inside its operations, in the order that `pipeline`
/// says; what is alone passes the parts on the caller's thread.
///
/// The parts may be any subset of a graph's: boundaries whose other end is not here stay open until
/// they are bound to a meeting place, and the schedulers of all processes work as one run; then
/// what RemoteScheduler says of waiting, epochs and errors holds here.
///
/// What goes wrong in one part stops all parts within the step, with an Error that names the part;
/// while all parts are here, the weights are those from before the step, and the next step may be
/// tried.
///
///     DistributedScheduler scheduler(partition_graph(graph, 2));
///     scheduler.bindProducer("image", images);
///     scheduler.bindProducer("label", labels);
///     scheduler.fit(30);
class DistributedScheduler {
 public:
  /// `deploy.partitions` is empty or has one entry per part. A part's target is an endpoint URL
  /// without a name, `tcp://host:port`: its open boundaries meet the others there, unless they are
  /// bound otherwise. With `deploy.secure` (or `options.secure.on`) every tensor on a boundary, and
  /// what leaves the graph, is signed, and checked before it is used (docs/guides/custody.md);
  /// `options.secure` says with which key and where the chain goes. A check that fails stops the
  /// run with an Error that names the link.
  explicit DistributedScheduler(const std::vector<HarmonicGraph>& parts,
                                const DeploymentDescriptor& deploy = {},
                                const RuntimeOptions& options = {},
                                const PipelineOptions& pipeline = {});
  DistributedScheduler(const std::vector<HarmonicGraph>& parts, const DeploymentDescriptor& deploy,
                       const RemoteOptions& options);
  ~DistributedScheduler();
  DistributedScheduler(DistributedScheduler&&) noexcept;
  DistributedScheduler& operator=(DistributedScheduler&&) noexcept;

  /// A name that no part has, or that is bound already, is an Error that lists what there is.
  void bindProducer(const std::string& name, ProducerPtr producer);
  void bindConsumer(const std::string& name, ConsumerPtr consumer);
  /// Where an open boundary meets its other end; until the first step (or look at the weights).
  void bindProducer(const RemoteBinding& binding);
  void bindConsumer(const RemoteBinding& binding);
  /// The same over an end that was made already (a bus between two threads, a port that was chosen
  /// before): the scheduler takes it over. The end may have a name of its own.
  void bindProducer(const std::string& boundary, TransportPtr end);
  void bindConsumer(const std::string& boundary, TransportPtr end);

  /// Makes this scheduler one of `ends.ranks` replicas that learn together, each a scheduler of the
  /// same graph and settings with the same data bound, in a thread or process of its own
  /// (docs/guides/data-parallel.md). Every replica reads each batch whole and computes its share of
  /// the rows; gradients, losses and running statistics are summed over all before they are used,
  /// so that the weights stay the same bits in all replicas. A batch is cut into `micro_batches`
  /// times `ranks` micro-batches. Reports tell of the whole batch; a bound consumer sees this
  /// replica's rows. Call it once, before the first step. What goes wrong in one replica is an
  /// Error in all, after which all must be made anew.
  void join_replicas(ReductionEnds ends, const ReductionOptions& reduction = {});

  /// One batch through all parts; learns when a part has a training tap. An open boundary is an
  /// Error that names it.
  StepReport step();
  FitReport fit(std::int64_t epochs, const FitOptions& options = {});
  [[nodiscard]] Evaluation evaluate(const NamedProducers& producers);
  [[nodiscard]] NamedTensors infer(const NamedTensors& inputs);
  /// Many batches, which pass the parts at the same time; the same answers as one by one.
  [[nodiscard]] std::vector<NamedTensors> infer(const std::vector<NamedTensors>& batches);

  void save_checkpoint(const std::filesystem::path& path) const;
  void load_checkpoint(const std::filesystem::path& path);
  /// See RemoteScheduler::resume. With all parts here it loads the checkpoint, if there is one.
  bool resume(const std::filesystem::path& path);
  void load_weights(const std::filesystem::path& path,
                    const std::map<std::string, std::string>& names = {});

  /// Ends a secure run: the chain gets the final weights and each part's closing head, and no step
  /// may follow. Destroying the scheduler does it too, unless a step failed. Does nothing
  /// otherwise.
  void close();
  /// What the parts here signed last, a line each: run, part, number and digest of the head,
  /// signature. Empty before the first step and in a run that is not secure.
  [[nodiscard]] std::string proof() const;

  [[nodiscard]] std::size_t part_count() const;
  /// Parameters and buffers of all parts by name; they share the scheduler's memory.
  [[nodiscard]] NamedTensors parameters() const;
  [[nodiscard]] std::string weights_digest() const;
  [[nodiscard]] const TrainingProgress& progress() const;

 private:
  struct State;
  OwnedState<State> state_;
};

}  // namespace harmonics::inline in_schedule
