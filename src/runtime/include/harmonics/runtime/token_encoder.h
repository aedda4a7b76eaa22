// TokenEncoder: a model that reads whole texts and looks both ways, such as BERT.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <harmonics/runtime/token_stage.h>

namespace harmonics::inline in_runtime {

/// The most tokens of one call.
inline constexpr std::int64_t kMaxEncodedTokens = kMaxTokenRows;

/// Whether the graph has a consumer 'last_hidden_state': what encoders are imported with.
[[nodiscard]] bool is_encoder(const HarmonicGraph& graph);

/// One thread at a time. What a text becomes depends on the text alone, bit for bit, as in
/// TokenStage, whose kinds of layers it knows.
class TokenEncoder {
 public:
  /// A graph without 'last_hidden_state', or one that needs a layer that does not work row by row
  /// to get there, is an Error. What the graph makes besides is left out.
  TokenEncoder(const HarmonicGraph& graph, const WeightSource& weights, int threads);
  ~TokenEncoder();

  [[nodiscard]] std::int64_t width() const { return width_; }
  [[nodiscard]] std::int64_t max_length() const { return stage_.max_length(); }
  /// Ids are below this.
  [[nodiscard]] std::int64_t vocabulary() const { return vocabulary_; }
  /// The last hidden state of each text, {tokens, width}, from its ids (all of one type). A text
  /// that is empty or too long, an id outside the vocabulary, and more than kMaxEncodedTokens in
  /// all are Errors.
  [[nodiscard]] std::vector<Tensor> encode(std::span<const std::vector<std::int64_t>> texts);

 private:
  TokenStage stage_;
  std::int64_t width_ = 0;
  std::int64_t vocabulary_ = 0;
};

}  // namespace harmonics::inline in_runtime
