// Which part of a batch a replica computes, and what it adds to the sums (private to schedule).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <harmonics/schedule/batch_runner.h>

namespace harmonics::inline in_schedule {

/// The micro-batches of one replica: `count` of the batch's `total`, from `first` on. They are
/// shared out as evenly as they go, in the order of the replicas.
struct ReplicaShare {
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t total = 0;
  /// Rows of these micro-batches as a share of the batch.
  double weight = 0;

  /// A batch with fewer micro-batches than replicas leaves the last ones without.
  [[nodiscard]] bool idle() const { return count == 0; }
};
[[nodiscard]] ReplicaShare replica_share(const SlicedBatch& batch, std::size_t replica,
                                         std::size_t replicas);

/// The replica's micro-batches, numbered from 0; positions in the batch stay as they are. An idle
/// replica repeats the first one of the batch at a loss scale of zero: it keeps in step with its
/// parts elsewhere and adds nothing.
[[nodiscard]] SlicedBatch slice_of(const SlicedBatch& batch, const ReplicaShare& share);

/// What is summed over the replicas after the passes of a batch. Names of parameters stand for
/// gradients, names with a leading '@' for the rest.
class ReplicaSums {
 public:
  /// `before` are the stages' buffers from before the passes. Replica 0 brings what there is once.
  ReplicaSums(std::span<const Stage> stages, const ReplicaShare& share, NamedTensors before);

  /// This replica's summands. `gradients` and `buffers` are those after the passes, `flags` numbers
  /// that are added up as they are.
  [[nodiscard]] NamedTensors summands(NamedTensors gradients, const NamedTensors& buffers,
                                      const TapReport& taps, std::span<const double> flags) const;

  /// What the sums mean.
  [[nodiscard]] NamedTensors gradients(const NamedTensors& sums) const;
  [[nodiscard]] NamedTensors buffers(const NamedTensors& sums) const;
  [[nodiscard]] static TapReport taps(const NamedTensors& sums);
  [[nodiscard]] static std::vector<double> flags(const NamedTensors& sums);

 private:
  struct Buffer {
    TensorSpec spec;
    /// What one micro-batch leaves of the old value, for running means; nothing for other buffers.
    std::optional<double> keeps;
  };
  void add_layer(const HarmonicGraph& graph, std::size_t index);
  [[nodiscard]] Tensor buffer_summand(const std::string& name, const Tensor& after) const;

  std::map<std::string, TensorSpec> trained_;
  std::map<std::string, Buffer> buffers_;
  ReplicaShare share_;
  NamedTensors before_;
};

}  // namespace harmonics::inline in_schedule
