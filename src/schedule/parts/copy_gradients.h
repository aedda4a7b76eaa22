// CopyGradients: how the copies of a part come to one gradient (private to schedule).
//
// One process adds the gradients of its micro-batches one after another. So do copies: what each
// micro-batch gave stays apart until the first copy adds all of them in the order of the batch, and
// tells the others the sum. That costs the first copy a copy of the part's gradients for every
// micro-batch of the batch, and as much traffic; the bits are those of one process.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <harmonics/schedule/batch_runner.h>
#include <harmonics/schedule/part_copies.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_schedule {

/// One thread. Every wait ends after `patience`, with an Error.
class CopyGradients {
 public:
  struct Place {
    CopyTurns turns;
    std::size_t copy = 0;
    /// The first copy: to each other one, in order; the others: to the first. Not owned.
    std::vector<Transport*> links;
    Nanoseconds patience{};
  };
  explicit CopyGradients(Place place) : place_(std::move(place)) {}

  /// A part whose layers keep running statistics is an Error: they follow the micro-batches one
  /// after another, and no copy sees all of them.
  static void check(const HarmonicGraph& part);

  /// After the backward pass of a micro-batch: takes its gradients out of the stage.
  void take(const MicroBatch& micro_batch, Stage& stage);
  /// After the passes of a batch: gives every copy's stage the sum, and the first copy what all
  /// taps saw; the others' are zero. `ends_after` becomes the least that any copy knows.
  void reduce(Stage& stage, const SlicedBatch& batch, std::vector<TapReport>& taps,
              std::uint64_t& ends_after);

 private:
  /// What one micro-batch gave.
  struct Share {
    NamedTensors gradients;
    TapReport taps;
    std::uint64_t ends_after = 0;
  };
  void tell(Transport& link, const MicroBatch& micro_batch, const Share& share) const;
  [[nodiscard]] Share hear(Transport& link, const MicroBatch& micro_batch) const;
  [[nodiscard]] Message receive(Transport& link, const MicroBatch& due) const;
  [[nodiscard]] Share add_all(const SlicedBatch& batch, std::vector<TapReport>& taps,
                              std::uint64_t ends_after);

  const Place place_;
  std::map<std::uint32_t, NamedTensors> taken_;  // by micro-batch of the batch under way
};

}  // namespace harmonics::inline in_schedule
