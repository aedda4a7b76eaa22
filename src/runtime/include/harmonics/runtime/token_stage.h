// TokenStage: some layers of a language model and the cache of their attention.
//
// It computes rows, not batches: a row is one token of one sequence at its position. What a row
// becomes depends on its own sequence alone, bit for bit: not on the other rows of a call, nor on
// how a prompt is cut into calls, nor on where the graph is cut, nor on threads or instruction set.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/models/weight_source.h>
#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_runtime {

using SequenceId = std::uint64_t;
/// Tensors by their name in the graph; each row of one is a token.
using TokenTensors = std::map<std::string, Tensor, std::less<>>;

/// The most rows of one call, and sequences that a stage keeps at the same time.
inline constexpr std::int64_t kMaxTokenRows = 8192;
inline constexpr std::size_t kMaxSequences = 4096;

/// Tokens of one sequence that follow one another.
struct TokenSpan {
  SequenceId sequence = 0;
  /// Position of the first; there are as many tokens in the cache.
  std::int64_t first = 0;
  std::int64_t count = 0;
  /// Of how many, from the last one back, the last stage gives its outputs.
  std::int64_t wanted = 0;
  bool operator==(const TokenSpan&) const = default;
};

struct TokenStageOptions {
  /// Layers [first_layer, end_layer) of the graph; end 0: all.
  std::size_t first_layer = 0;
  std::size_t end_layer = 0;
  /// Ceiling of the cache; a call that would need more is an Error (kResourceExhausted).
  std::uint64_t cache_bytes = std::uint64_t{1} << 30;
  /// Threads inside an operation, this one included.
  int threads = 1;
  /// Sequences come whole, in one call each, and are forgotten after it; attention may look both
  /// ways, and masks are all ones. For encoders.
  bool whole = false;
};

/// What a stage holds.
struct TokenStageFigures {
  /// Weights as they are stored and read, and the part of them that was copied out of the file.
  std::uint64_t weight_bytes = 0;
  std::uint64_t copied_bytes = 0;
  /// Of the cache for one token, its ceiling in tokens, and tokens that have room now.
  std::uint64_t token_bytes = 0;
  std::int64_t most_tokens = 0;
  std::int64_t held_tokens = 0;
};

class TokenStageBody;

/// One thread at a time. Weights stay where the source maps them and as they are packed there.
/// HARMONICS_SLOWDOWN (base/slowdown.h) makes it pose as one on a slower machine.
class TokenStage {
 public:
  /// A layer that does not work row by row, attention that looks ahead, and a missing or misshapen
  /// weight is an Error that names it. The graph must be resolved and is copied.
  TokenStage(const HarmonicGraph& graph, const WeightSource& weights,
             const TokenStageOptions& options);
  /// One that computes elsewhere: see torch_token_stage.h.
  explicit TokenStage(std::unique_ptr<TokenStageBody> body);
  ~TokenStage();
  TokenStage(TokenStage&&) noexcept;

  /// Names of the tensors that come in ("input_ids" or what earlier layers made) and of those that
  /// go out: what later layers read or, of the last stage, the graph's consumers.
  [[nodiscard]] const std::vector<std::string>& entering() const;
  [[nodiscard]] const std::vector<std::string>& leaving() const;
  /// The longest sequence.
  [[nodiscard]] std::int64_t max_length() const;
  [[nodiscard]] TokenStageFigures figures() const;

  /// Takes the spans' rows, one span after another, through the layers and keeps their keys and
  /// values. Outputs have the same rows; those of the last stage only the wanted ones. A span that
  /// does not begin where its sequence ends, an id outside the vocabulary and a missing tensor are
  /// Errors; after an Error the sequences of the call are as long as before.
  [[nodiscard]] TokenTensors compute(std::span<const TokenSpan> spans, const TokenTensors& inputs);

  /// Tokens of the sequence that are kept; 0 for one that is not known.
  [[nodiscard]] std::int64_t length(SequenceId sequence) const;
  /// `to` begins as the first `tokens` of `from`, whose memory both share until they part.
  void fork(SequenceId from, SequenceId to, std::int64_t tokens);
  /// Forgets a sequence; one that is not known is as good as forgotten.
  void drop(SequenceId sequence);
  /// Forgets all of them.
  void drop_all();
  /// Keys and values of a sequence as one tensor {tokens, …}, and back under any id.
  [[nodiscard]] Tensor saved(SequenceId sequence) const;
  void restore(SequenceId sequence, const Tensor& saved);

 private:
  std::unique_ptr<TokenStageBody> body_;
  double slowdown_;
};

/// Makes a stage of some layers: on the CPU, or on a device (torch_token_stage.h).
using TokenStageMaker =
    std::function<TokenStage(const HarmonicGraph&, const WeightSource&, const TokenStageOptions&)>;

/// "avx512", "avx2" or "plain": how this machine multiplies. The bits are the same.
[[nodiscard]] std::string token_kernel();

}  // namespace harmonics::inline in_runtime
