#include "vocabulary.h"

#include <bit>
#include <functional>

#include <harmonics/text/tokenizer.h>

#include "utf8.h"

namespace harmonics::inline in_text {
namespace {

/// Of all tokens together: where one starts is a number of 32 bits.
constexpr std::size_t kMaxBytes = (std::size_t{1} << 32) - 1;
static_assert(kMaxTokenBytes < 0xFFFF, "a length is a number of 16 bits");

}  // namespace

Vocabulary::Vocabulary(const Section& section, std::string_view key) {
  const Json& json = section.value(key);
  if (!json.is_object()) section.refuse(format("needs an object as '{}'", key));
  const Json::Object& entries = json.as_object();
  if (entries.size() > kMaxVocabulary) {
    section.refuse(format("has {} tokens, at most {}", entries.size(), kMaxVocabulary));
  }
  std::size_t bytes = 0;
  for (const auto& [token, number] : entries) bytes += token.size();
  if (bytes > kMaxBytes) {
    section.refuse(format("has tokens of {} bytes in all, at most {}", bytes, kMaxBytes));
  }
  texts_.reserve(bytes);
  starts_.reserve(entries.size());
  lengths_.reserve(entries.size());
  slots_.resize(std::bit_ceil(entries.size() + entries.size() / 4 + 1), kNobody);
  for (const auto& [token, number] : entries) {
    check_token(section, token);
    const bool fits = number.is_integer() && number.as_integer() >= 0 &&
                      number.as_integer() < static_cast<std::int64_t>(kMaxVocabulary);
    if (!fits) section.refuse(format("gives '{}' no id of 0 to {}", token, kMaxVocabulary - 1));
    const auto id = static_cast<std::size_t>(number.as_integer());
    if (id >= lengths_.size()) {
      starts_.resize(id + 1);
      lengths_.resize(id + 1, kFree);
    }
    if (lengths_[id] != kFree) {
      section.refuse(format("gives the id {} to '{}' and '{}'", id, text(id), token));
    }
    starts_[id] = static_cast<std::uint32_t>(texts_.size());
    lengths_[id] = static_cast<std::uint16_t>(token.size());
    texts_ += token;
    TokenId& slot = slots_[slot_of(token)];
    if (slot == kNobody) slot = static_cast<TokenId>(id);
  }
}

std::size_t Vocabulary::slot_of(std::string_view token) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>()(token) & mask;
  while (slots_[slot] != kNobody && text(static_cast<std::size_t>(slots_[slot])) != token) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

std::optional<TokenId> Vocabulary::find(std::string_view token) const {
  const TokenId id = slots_[slot_of(token)];
  if (id == kNobody) return std::nullopt;
  return id;
}

std::optional<std::string_view> Vocabulary::token(std::int64_t id) const {
  if (id < 0 || id >= static_cast<std::int64_t>(size())) return std::nullopt;
  const auto place = static_cast<std::size_t>(id);
  if (lengths_[place] == kFree) return std::nullopt;
  return text(place);
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
