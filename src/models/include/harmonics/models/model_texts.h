// What a model's files say of its texts: tokenizer, chat template, tokens that end an answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <harmonics/base/json.h>

namespace harmonics::inline in_models {

struct ModelTexts {
  /// A tokenizer.json; of a GGUF file one that says the same as its lists. `origin` names it.
  std::string tokenizer;
  std::string origin;
  /// Empty where the model has none.
  std::string chat_template;
  /// Ids that end an answer, and such tokens as the vocabulary spells them.
  std::vector<std::int64_t> end_ids;
  std::vector<std::string> end_tokens;
  /// What the template may ask for: {"bos_token": …, "eos_token": …}.
  Json variables = Json::object();
};

/// Of a GGUF file, a folder of a model, or a tokenizer.json. Vocabularies of GGUF files are read
/// where they are byte-level ("gpt2") and their words are cut as gpt-2, smollm, qwen2 and llama-bpe
/// cut them; any other is an Error that names it.
[[nodiscard]] ModelTexts model_texts(const std::filesystem::path& source);

}  // namespace harmonics::inline in_models
