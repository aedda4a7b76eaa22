// The next token out of a model's logits: a pure function of logits, settings, seed, prompt and
// position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace harmonics::inline in_text {

/// How a token is chosen; limits are checked by `check`.
struct SamplingOptions {
  /// 0: the most likely one, the first of equals.
  double temperature = 0;
  /// The smallest set of the most likely tokens whose probabilities come to this much.
  double top_p = 1;
  /// The so many most likely ones; 0: all.
  std::int64_t top_k = 0;
  std::uint64_t seed = 0;

  /// An Error names a setting that is out of bounds.
  void check() const;
};

/// A token and the logarithm of its probability, in the model's own distribution: neither the
/// temperature nor the bounds change it.
struct TokenChoice {
  std::int64_t id = 0;
  double logprob = 0;
  bool operator==(const TokenChoice&) const = default;
};

/// The number by which the chance of one sequence is drawn: of its seed and the ids of its prompt.
[[nodiscard]] std::uint64_t sampling_key(std::uint64_t seed, std::span<const std::int64_t> prompt);

/// The token at `position`, counted from the start of the prompt. An Error (kDataLoss) where no
/// logit is a finite number.
[[nodiscard]] std::int64_t choose_token(std::span<const float> logits,
                                        const SamplingOptions& options, std::uint64_t key,
                                        std::int64_t position);

/// The `count` most likely tokens, the first of equals first.
[[nodiscard]] std::vector<TokenChoice> likeliest_tokens(std::span<const float> logits,
                                                        std::size_t count);

/// The logarithm of a token's probability.
[[nodiscard]] double logprob_of(std::span<const float> logits, std::int64_t id);

}  // namespace harmonics::inline in_text
