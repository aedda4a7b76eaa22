#include "vocabulary.h"

#include <harmonics/text/tokenizer.h>

#include "utf8.h"

namespace harmonics::inline in_text {

Vocabulary::Vocabulary(const Section& section, std::string_view key) {
  const Json& json = section.value(key);
  if (!json.is_object()) section.refuse(format("needs an object as '{}'", key));
  const Json::Object& entries = json.as_object();
  if (entries.size() > kMaxVocabulary) {
    section.refuse(format("has {} tokens, at most {}", entries.size(), kMaxVocabulary));
  }
  ids_.reserve(entries.size());
  for (const auto& [token, number] : entries) {
    check_token(section, token);
    const bool fits = number.is_integer() && number.as_integer() >= 0 &&
                      number.as_integer() < static_cast<std::int64_t>(kMaxVocabulary);
    if (!fits) section.refuse(format("gives '{}' no id of 0 to {}", token, kMaxVocabulary - 1));
    const auto id = static_cast<std::size_t>(number.as_integer());
    if (id >= tokens_.size()) tokens_.resize(id + 1);
    if (tokens_[id] != nullptr) {
      section.refuse(format("gives the id {} to '{}' and '{}'", id, *tokens_[id], token));
    }
    const std::string& kept = texts_.emplace_back(token);
    tokens_[id] = &kept;
    ids_.emplace(kept, static_cast<TokenId>(id));
  }
}

const std::string* Vocabulary::token(std::int64_t id) const {
  if (id < 0 || id >= static_cast<std::int64_t>(tokens_.size())) return nullptr;
  return tokens_[static_cast<std::size_t>(id)];
}

void check_token(const Section& section, std::string_view token) {
  if (token.size() > kMaxTokenBytes) {
    section.refuse(format("has a token of {} bytes, at most {}", token.size(), kMaxTokenBytes));
  }
  if (first_invalid_utf8(token) != std::string_view::npos) {
    section.refuse("has a token that is no UTF-8");
  }
}

}  // namespace harmonics::inline in_text
