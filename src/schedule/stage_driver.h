// StageDriver: takes the micro-batches of one batch through one stage (private to schedule).
//
// Tensors enter from the bound data or over a boundary and leave over boundaries; gradients take
// the same boundaries back. The driver does not know what carries them.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/schedule/batch_runner.h>
#include <harmonics/schedule/part_copies.h>
#include <harmonics/schedule/pipeline.h>
#include <harmonics/schedule/stage_custody.h>
#include <harmonics/transport/packing.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_schedule {

/// What carries a boundary. Not owned.
struct BoundaryCarrier {
  /// One for each copy of the part at the other end.
  std::vector<Transport*> channels;
  /// True when they carry only tensors in main memory.
  bool host_only = false;
  /// How those copies take turns.
  CopyTurns turns = {};
  /// Copies take turns at one of its ends, or at both.
  bool dealt = false;
  BoundaryBits bits = {};

  [[nodiscard]] Transport& in_turn(std::uint64_t number) const {
    return *channels[turns.copy_of(number)];
  }
};

/// What packing has taken from the gradients that a part sends, to be added to the next ones.
struct GradientRests {
  /// By boundary and micro-batch.
  std::map<std::pair<std::string, std::uint32_t>, Tensor> rests;
  /// Of the losses whose gradients they are.
  double loss_scale = 0;
};

/// This stage's ends of its boundaries, by name.
struct StageEnds {
  std::map<std::string, BoundaryCarrier, std::less<>> entering;
  std::map<std::string, BoundaryCarrier, std::less<>> leaving;
  /// First activations of a batch that were received already, by boundary.
  std::map<std::string, Message, std::less<>> taken;
  GradientRests rests = {};
  /// The number by which the copies at the other ends take turns: that of the batch under way.
  std::uint64_t turn = 0;
  /// How the copies of this part take turns, and which this one is.
  CopyTurns turns = {};
  std::size_t copy = 0;
  [[nodiscard]] bool takes(std::uint64_t number) const { return turns.copy_of(number) == copy; }
  /// What left last that was not empty, by boundary with several copies at its other end, and the
  /// copies that have it. A weight is sent when it has changed, then no row of it: the others still
  /// need it.
  struct Shared {
    Tensor tensor;
    std::set<std::size_t> known_to;
  };
  std::map<std::string, Shared, std::less<>> shared = {};
};

/// A tensor that came over a boundary as it was before it was packed. `slots` is the number of
/// gradients that it holds, 0 for an activation.
[[nodiscard]] Tensor unpacked(const Tensor& tensor, std::uint32_t slots);

/// One thread. Every wait ends after `patience`, with an Error that names the boundary.
class StageDriver {
 public:
  /// `ends_after`, the steps after which the run ends, rides along with what is sent, and becomes
  /// smaller when another part wants the run to end sooner. With `custody` everything that leaves
  /// is signed, and everything that comes is checked before it is used; null: the run is not
  /// secure.
  StageDriver(Stage& stage, StageEnds& ends, Nanoseconds patience,
              std::atomic<std::uint64_t>& ends_after, StageCustody* custody = nullptr)
      : stage_(stage),
        ends_(ends),
        patience_(patience),
        ends_after_(ends_after),
        custody_(custody) {}

  /// Makes the passes in this order. Ends early, with what there is, when a loss is not finite or
  /// when `stop` is asked for. The outputs hold what left over no boundary.
  [[nodiscard]] SliceResults run(const std::vector<Pass>& passes, const SlicedBatch& batch,
                                 const std::stop_token& stop);
  /// Called by `run` after each backward pass.
  void set_after_backward(std::function<void(const MicroBatch&)> call) {
    after_backward_ = std::move(call);
  }
  /// What the taps say need not be known before `run` ends: nobody elsewhere acts on a batch that
  /// another part may still find not finite.
  void let_taps_come_late() { taps_come_late_ = true; }
  /// Takes whole batches, one in each place of a micro-batch, forward in evaluation mode.
  [[nodiscard]] SliceResults compute(const SlicedBatch& batches, bool measure,
                                     const std::stop_token& stop);

  // One batch in evaluation mode, step by step: what `compute` makes of each.

  /// What leaves over a boundary is packed as the boundary is. `taps` is null where they are not
  /// measured.
  [[nodiscard]] NamedTensors compute_one(const MicroBatch& batch, const NamedTensors& data,
                                         TapReport* taps);
  /// Sends what leaves over a boundary, which then is no output any more.
  void hand_on_one(const MicroBatch& batch, NamedTensors& outputs);
  [[nodiscard]] StageEnds& ends() { return ends_; }
  [[nodiscard]] const Stage& stage() const { return stage_; }
  [[nodiscard]] StageCustody* custody() { return custody_; }
  [[nodiscard]] Nanoseconds patience() const { return patience_; }

 private:
  [[nodiscard]] NamedTensors inputs_of(const MicroBatch& micro_batch, const NamedTensors& data);
  void pack_leaving(NamedTensors& outputs) const;
  [[nodiscard]] Tensor packed_gradient(const std::string& name, const BoundaryCarrier& end,
                                       const MicroBatch& micro_batch, const Tensor& gradient);
  void hand_on(const MicroBatch& micro_batch, NamedTensors& outputs, const Bytes& head);
  void end_batch(const SliceResults& results, const std::stop_token& stop);
  /// Who takes turns at a batch hears of it before its tensors come, also where none does.
  void announce(const MicroBatch& first, const Bytes& head);
  void forward(const MicroBatch& micro_batch, const SlicedBatch& batch, SliceResults& results);
  void backward(const MicroBatch& micro_batch, double loss_scale);
  void share(const std::string& name, const BoundaryCarrier& end, Tensor& leaving);
  void send(const std::string& name, const BoundaryCarrier& end, Message message);
  [[nodiscard]] Tensor receive(const std::string& name, const BoundaryCarrier& end,
                               MessageKind kind, const MicroBatch& micro_batch);
  [[nodiscard]] ByteSpan checked_head(Message& message, const Passage& due);

  Stage& stage_;
  StageEnds& ends_;
  Bytes head_;     // rides with every activation
  Bytes run_end_;  // rides with every gradient
  const Nanoseconds patience_;
  std::function<void(const MicroBatch&)> after_backward_;
  bool taps_come_late_ = false;
  std::atomic<std::uint64_t>& ends_after_;
  StageCustody* const custody_;
};

/// `value` becomes the smaller of both.
void lower(std::atomic<std::uint64_t>& value, std::uint64_t other);

}  // namespace harmonics::inline in_schedule
