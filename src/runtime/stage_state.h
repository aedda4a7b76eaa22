// What a Stage holds (private to runtime): shared by stage.cc, which computes, and
// stage_weights.cc, which changes, saves and restores weights.
#pragma once

#include <torch/torch.h>

#include <string>
#include <unordered_map>
#include <vector>

#include <harmonics/runtime/stage.h>

#include "optimizer.h"
#include "program.h"

namespace harmonics {

using Tensors = std::vector<at::Tensor>;

/// What a micro-batch leaves behind until its backward pass.
struct Flight {
  Tensors values;                // by slot
  std::vector<Tensors> aliases;  // by slot, then use number
  Tensors losses;                // by tap: sum over samples
  std::int64_t batch_samples = 0;
};

enum class Mode { kInfer, kEvaluate, kTrain };

struct Stage::State {
  State(HarmonicGraph graph, const RuntimeOptions& options);

  at::Tensor enter(const ProducerNode& node, const Tensor& given) const;
  Tensors collect(const NamedTensors& inputs, bool with_targets) const;
  at::Tensor compute(const LayerStep& step, const MicroBatch& micro_batch, Mode mode,
                     const Tensors& inputs) const;
  Flight run(const MicroBatch& micro_batch, Tensors values, Mode mode) const;
  void run_taps(Flight& flight, Mode mode, TapReport& report) const;
  NamedTensors leave(const Flight& flight, Mode mode) const;

  HarmonicGraph graph;
  Device device;
  PrecisionPolicy precision;
  Program program;
  Optimizer optimizer;
  std::vector<std::string> names;
  Tensors parameters;
  std::unordered_map<std::uint32_t, Flight> flights;
};

}  // namespace harmonics
