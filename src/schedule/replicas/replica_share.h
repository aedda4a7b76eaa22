// Which part of a batch a replica computes, and what it adds to the sums (private to schedule).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <harmonics/schedule/batch_runner.h>
#include <harmonics/schedule/reduction.h>
#include <harmonics/settings/batch_shares.h>

namespace harmonics::inline in_schedule {

/// The micro-batches of one replica: `count` of the batch's `total`, from `first` on. Unless it was
/// dealt out otherwise they are shared out as evenly as they go, in the order of the replicas.
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
/// The same where the batch was dealt out in other shares.
[[nodiscard]] ReplicaShare replica_share(const SlicedBatch& batch, std::size_t replica,
                                         const DealtRows& dealt);

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

  /// What is summed, with so many flags: gradients in the order in which backward passes complete
  /// them, then the rest.
  [[nodiscard]] ReductionLayout layout(std::size_t flags) const;
  /// The parameters of which there is a gradient to sum.
  [[nodiscard]] const std::map<std::string, TensorSpec>& trained() const { return trained_; }
  /// This replica's summands beside the gradients. `reached` are the parameters that have one;
  /// `buffers` are those after the passes, `flags` numbers that are added up as they are.
  [[nodiscard]] NamedTensors rest(const std::set<std::string>& reached, const NamedTensors& buffers,
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
  std::vector<std::string> order_;  // of the trained ones, as the layers stand in the graph
  std::map<std::string, Buffer> buffers_;
  ReplicaShare share_;
  NamedTensors before_;
};

}  // namespace harmonics::inline in_schedule
