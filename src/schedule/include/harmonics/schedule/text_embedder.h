// TextEmbedder: one vector for each text, as the folder of an encoder says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <harmonics/runtime/token_encoder.h>
#include <harmonics/text/tokenizer.h>

namespace harmonics::inline in_schedule {

/// How vectors of tokens become one of their text.
struct EmbeddingRecipe {
  enum class Pooling { kMean, kFirst, kMax };
  Pooling pooling = Pooling::kMean;
  /// To the length 1.
  bool normalizes = false;
  /// Texts are cut to so many tokens; 0: as many as the model takes.
  std::int64_t max_length = 0;
};

/// Reads modules.json, and what it names, as sentence-transformers writes them; a folder without
/// has the mean. A module or a kind of pooling that is not known is an Error that names it.
[[nodiscard]] EmbeddingRecipe embedding_recipe(const std::filesystem::path& folder);

/// One thread at a time, but for `ids`. A vector depends on its text alone, bit for bit.
class TextEmbedder {
 public:
  /// `folder` has the model's tokenizer.json, too.
  TextEmbedder(const HarmonicGraph& graph, const WeightSource& weights,
               const std::filesystem::path& folder, int threads);

  /// The ids of a text, with those that the model wants around it, cut to the longest. Any thread.
  [[nodiscard]] std::vector<std::int64_t> ids(const std::string& text) const;
  /// Whether these can be embedded: an Error says what is wrong. Any thread.
  void check(const std::vector<std::int64_t>& ids) const;
  [[nodiscard]] std::int64_t max_length() const { return max_length_; }
  [[nodiscard]] std::int64_t width() const { return encoder_.width(); }
  [[nodiscard]] std::vector<std::vector<float>> embed(
      std::span<const std::vector<std::int64_t>> texts);

 private:
  EmbeddingRecipe recipe_;
  Tokenizer tokenizer_;
  TokenEncoder encoder_;
  std::int64_t max_length_ = 0;
  std::int64_t vocabulary_ = 0;
};

}  // namespace harmonics::inline in_schedule
