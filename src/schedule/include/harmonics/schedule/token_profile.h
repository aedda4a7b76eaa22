// Measures the layers of a language model through the stages that generate.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <harmonics/base/clock.h>
#include <harmonics/graph/graph.h>
#include <harmonics/models/weight_source.h>
#include <harmonics/plan/inputs.h>

namespace harmonics::inline in_schedule {

struct TokenProfileOptions {
  /// Numbers of sequences that decode in one step; each once.
  std::vector<std::int64_t> sequences = {1, 4, 16};
  /// Tokens that they hold, at most; a nearly empty cache is measured besides.
  std::int64_t context = 512;
  /// Tokens of a prompt in one step.
  std::int64_t chunk = 128;
  int warmup = 2;
  int repeats = 5;
  int threads = 1;
  /// What caches may take meanwhile.
  std::uint64_t cache_bytes = std::uint64_t{1} << 40;
};

/// In the terms of models.yml and device_types.yml: memory is that of the weights as they are
/// stored, times are medians.
struct TokenProfile {
  ModelProfile model;
  TokenTimesList times;
};

/// Every unit of the graph is a stage of its own, and steps go through all of them in turn, so that
/// each finds the processor's caches as it does while a text is made. `on_step` hears before each
/// kind of step which one of how many it is. A context that the model does not take, and caches
/// beyond the ceiling, are an Error.
[[nodiscard]] TokenProfile profile_tokens(
    const HarmonicGraph& graph, const WeightSource& weights, const TokenProfileOptions& options,
    const Clock& clock, const std::function<void(std::size_t, std::size_t)>& on_step = {});

}  // namespace harmonics::inline in_schedule
