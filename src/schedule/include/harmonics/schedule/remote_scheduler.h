// RemoteScheduler: one part of a graph in this process, the other parts in others.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/data/producer.h>
#include <harmonics/graph/deployment.h>
#include <harmonics/graph/graph.h>
#include <harmonics/runtime/options.h>
#include <harmonics/runtime/trainer.h>
#include <harmonics/schedule/pipeline.h>
#include <harmonics/transport/transport.h>

namespace harmonics {

struct RemoteOptions {
  /// Seed, micro-batches, clipping and precision must be the same in all parts.
  RuntimeOptions runtime = {};
  /// Order of the micro-batches, and the longest wait for one tensor of another part.
  PipelineOptions pipeline = {};
  TransportOptions transport = {};
  /// How long the first step waits for each neighbour to come.
  Nanoseconds first_contact = std::chrono::minutes(1);
  /// How long destroying a scheduler waits for neighbours to take what was sent.
  Nanoseconds closing = std::chrono::seconds(30);
};

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
  /// `deploy.partitions` is empty or has one entry.
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

  /// One batch. A boundary that is not bound is an Error that names it.
  StepReport step();
  /// FitOptions::evaluation must be empty: evaluate the saved weights instead.
  FitReport fit(std::int64_t epochs, const FitOptions& options = {});

  /// This part's weights and state: see checkpoint.h. All parts must go on from the same step.
  void save_checkpoint(const std::filesystem::path& path) const;
  void load_checkpoint(const std::filesystem::path& path);
  void load_weights(const std::filesystem::path& path,
                    const std::map<std::string, std::string>& names = {});

  [[nodiscard]] const HarmonicGraph& graph() const;
  /// Parameters and buffers of this part by name; they share the scheduler's memory.
  [[nodiscard]] NamedTensors parameters() const;
  [[nodiscard]] const TrainingProgress& progress() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace harmonics
