// TextSide: the texts of a language model: tokenizer, chat template, tokens that end an answer.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/models/model_texts.h>
#include <harmonics/text/chat_template.h>
#include <harmonics/text/tokenizer.h>

namespace harmonics::inline in_schedule {

/// It never changes: any thread.
class TextSide {
 public:
  /// Of a GGUF file, a folder of a model, or a tokenizer.json: see model_texts.
  explicit TextSide(const std::filesystem::path& source);

  [[nodiscard]] const Tokenizer& tokenizer() const { return tokenizer_; }
  [[nodiscard]] const std::vector<std::int64_t>& end_ids() const { return end_ids_; }
  /// Ids of a text, or of a conversation; without a template the latter is an Error.
  [[nodiscard]] std::vector<std::int64_t> prompt(const std::string& text) const;
  [[nodiscard]] std::vector<std::int64_t> prompt(const std::vector<ChatMessage>& messages) const;

 private:
  explicit TextSide(ModelTexts texts);

  std::string origin_;
  Tokenizer tokenizer_;
  std::optional<ChatTemplate> chat_;
  Json variables_;
  std::vector<std::int64_t> end_ids_;
};

}  // namespace harmonics::inline in_schedule
