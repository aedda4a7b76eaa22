// StageDriver: takes the micro-batches of one batch through one stage (private to schedule).
//
// Tensors enter from the bound data or over a boundary and leave over boundaries; gradients take
// the same boundaries back. The driver does not know what carries them.
#pragma once

#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include <harmonics/runtime/batch_runner.h>
#include <harmonics/schedule/pipeline.h>
#include <harmonics/transport/transport.h>

namespace harmonics {

/// This stage's ends of its boundaries, by name. Not owned.
struct StageEnds {
  std::map<std::string, Transport*, std::less<>> entering;
  std::map<std::string, Transport*, std::less<>> leaving;
  /// First activations of a batch that were received already, by boundary.
  std::map<std::string, Message, std::less<>> taken;
  /// True when the transports carry only tensors in main memory.
  bool host_only = false;
};

/// One thread. Every wait ends after `patience`, with an Error that names the boundary.
class StageDriver {
 public:
  StageDriver(Stage& stage, StageEnds& ends, Nanoseconds patience)
      : stage_(stage), ends_(ends), patience_(patience) {}

  /// Makes the passes in this order. Ends early, with what there is, when a loss is not finite or
  /// when `stop` is asked for. The outputs hold what left over no boundary.
  [[nodiscard]] SliceResults run(const std::vector<Pass>& passes, const SlicedBatch& batch,
                                 const std::stop_token& stop);

 private:
  void forward(const MicroBatch& micro_batch, const SlicedBatch& batch, SliceResults& results);
  void backward(const MicroBatch& micro_batch, double loss_scale);
  void send(Transport& end, Message message) const;
  [[nodiscard]] Tensor receive(const std::string& name, Transport& end, MessageKind kind,
                               const MicroBatch& micro_batch);

  Stage& stage_;
  StageEnds& ends_;
  Bytes head_;  // rides with every activation
  const Nanoseconds patience_;
};

}  // namespace harmonics
