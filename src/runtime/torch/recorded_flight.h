// What a micro-batch leaves behind between its passes, recorded or not (private to runtime).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include <harmonics/runtime/stage_backend.h>
#include <harmonics/runtime/torch_layer.h>

#include "torch/recorded_pass.h"

namespace harmonics::inline in_runtime {

using Tensors = std::vector<at::Tensor>;

/// What a tap says of a micro-batch, still on the device.
struct TapValue {
  at::Tensor sum;      // of the samples' losses
  at::Tensor correct;  // undefined where nothing is judged
  std::int64_t judged = 0;
};

/// What a micro-batch leaves behind until its backward pass.
struct Flight {
  Tensors values;                // by slot
  std::vector<Tensors> aliases;  // by slot, then use number
  std::vector<TapValue> taps;
  std::int64_t batch_samples = 0;
  bool rehearsed = false;  // by a recorder, as its backward pass has to be
};

/// A micro-batch of a shape that keeps coming: its passes, and the memory that they work on.
struct RecordedFlight {
  int seen = 0;  // how often it came before it was recorded
  MicroBatch micro_batch;
  AxisValues axes;
  Tensors entering;  // by slot of a producer
  std::vector<ChanceDraw> draws;
  Flight flight;
  Tensors leaving;   // by consumer
  at::Tensor said;   // what the taps say, in one piece; undefined where there is none
  at::Tensor heard;  // the same in main memory, once the forward pass has come so far
  std::unique_ptr<RecordedPass> forward;
  Tensors arriving;                  // by consumer: the gradients that come back
  Tensors tap_gradients;             // by tap; undefined for one that bears none
  Tensors answers;                   // by producer: the gradients that go back
  std::vector<std::size_t> begun;    // places of parameters whose sum of gradients it writes
  std::vector<std::size_t> reached;  // places whose sum it adds to
  std::unique_ptr<RecordedPass> backward;
};

/// Inference of a batch of a shape that keeps coming.
struct RecordedInference {
  int seen = 0;
  Tensors entering;  // by slot of a producer
  AxisValues axes;
  Tensors leaving;  // by consumer
  std::unique_ptr<RecordedPass> pass;
};

}  // namespace harmonics::inline in_runtime
