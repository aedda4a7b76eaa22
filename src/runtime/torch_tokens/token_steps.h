// The layers of a token stage as steps, several layers in one where they can be (private to
// runtime).
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tokens/token_borders.h"
#include "tokens/token_pass.h"
#include "torch_tokens/token_kernels.h"

namespace harmonics::inline in_runtime {

/// Reads slots of a pass and writes one.
struct TorchTokenStep {
  std::vector<std::size_t> inputs;
  std::size_t output = 0;
  std::function<void(TorchTokenPass&)> run;
  /// Rows look at others in it.
  bool mixes = false;
};

/// Ids that are looked up, of which a table has so many.
struct IdTable {
  std::string layer, ids;
  std::int64_t rows = 0;
};

/// What a stage is made of, and where.
struct TokenStepRequest {
  const HarmonicGraph& graph;
  LayerRange range;
  const TokenBorders& borders;
  const WeightSource& weights;
  at::Device device;
  at::ScalarType numbers;
  /// Ceilings of the cache and of the longest sequence.
  std::uint64_t cache_bytes = 0;
  std::int64_t max_length = 0;
  /// What a layer gives is rounded before others see it, wherever the graph is cut.
  bool steady = false;
};

/// The steps of a stage, its weights and its cache on the device.
struct TokenSteps {
  std::vector<TorchTokenStep> steps;
  std::map<std::string, std::size_t, std::less<>> slots;
  std::vector<IdTable> tables;
  /// Of each attention layer, as AttentionPlan has them: one block more than can be handed out,
  /// for rows that only fill up a shape.
  std::vector<at::Tensor> caches;
  std::vector<CacheShape> shapes;
  std::int64_t blocks = 0;
  std::uint64_t weight_bytes = 0;
};

/// A layer that does not work row by row, and a missing or misshapen weight, is an Error. The
/// kernels outlive the steps.
[[nodiscard]] TokenSteps make_token_steps(const TokenStepRequest& request, TokenKernels& kernels);

}  // namespace harmonics::inline in_runtime
