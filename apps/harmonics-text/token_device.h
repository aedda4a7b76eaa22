// What computes the parts of a language model.
#pragma once

#include <string>

#include <harmonics/models/weight_source.h>
#include <harmonics/options/text_commands.h>
#include <harmonics/runtime/token_stage.h>

namespace harmonics::inline in_text_program {

struct TokenDevice {
  /// Makes a part; empty: on the CPU.
  TokenStageMaker make_stage = {};
  [[nodiscard]] bool is_gpu() const { return static_cast<bool>(make_stage); }
  /// "cpu" or "gpu".
  [[nodiscard]] std::string name() const { return is_gpu() ? "gpu" : "cpu"; }

  [[nodiscard]] TokenStage stage(const HarmonicGraph& graph, const WeightSource& weights,
                                 const TokenStageOptions& options) const {
    return is_gpu() ? make_stage(graph, weights, options) : TokenStage(graph, weights, options);
  }
};

/// A GPU that is asked for and is not there, or that this program knows nothing of, is the CPU with
/// one warning. On a GPU numbers are those of the weights: float32, bfloat16 or float16, and
/// bfloat16 where they are packed.
[[nodiscard]] TokenDevice token_device(const TextComputing& computing, const WeightSource& weights);

}  // namespace harmonics::inline in_text_program
