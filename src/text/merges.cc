#include "merges.h"

#include <bit>
#include <utility>

#include <harmonics/text/tokenizer.h>

namespace harmonics::inline in_text {
namespace {

using Halves = std::pair<std::string_view, std::string_view>;

Halves halves_of(const Section& section, const Json& merge, std::size_t number) {
  if (merge.is_array()) {
    const Json::Array& items = merge.as_array();
    if (items.size() == 2 && items[0].is_string() && items[1].is_string()) {
      return {items[0].as_string(), items[1].as_string()};
    }
  } else if (merge.is_string()) {
    const std::string_view text = merge.as_string();
    const std::size_t space = text.find(' ');
    if (space != text.npos && text.find(' ', space + 1) == text.npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  section.refuse(format("has merges[{}] that is no pair of tokens", number));
}

}  // namespace

Merges::Merges(const Section& section, const Vocabulary& vocabulary, std::string_view prefix) {
  const Json& json = section.value("merges");
  if (!json.is_array()) section.refuse("needs a list as 'merges'");
  const Json::Array& merges = json.as_array();
  if (merges.size() > kMaxVocabulary) {
    section.refuse(format("has {} merges, at most {}", merges.size(), kMaxVocabulary));
  }
  // A rank of all ones with a tag of all ones would be an empty slot.
  static_assert(kMaxVocabulary <= kRankMask);
  pairs_.reserve(merges.size());
  slots_.resize(std::bit_ceil(merges.size() * 2 + 2), kEmpty);
  const auto id_of = [&](std::string_view token, std::size_t number) {
    const auto id = vocabulary.find(token);
    if (!id) section.refuse(format("has merges[{}] of '{}', which is no token", number, token));
    return *id;
  };
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto [left, right] = halves_of(section, merges[i], i);
    std::string_view rest = right;
    rest.remove_prefix(std::min(rest.size(), prefix.size()));
    const TokenId first = id_of(left, i);
    const TokenId second = id_of(right, i);
    const TokenId made = id_of(std::string(left) + std::string(rest), i);
    insert({first, second, made});
  }
}

// Of a pair that is listed twice the last rank counts.
void Merges::insert(const Pair& pair) {
  const std::size_t slot = slot_of(pair.left, pair.right);
  const auto rank = static_cast<std::uint32_t>(pairs_.size());
  pairs_.push_back(pair);
  slots_[slot] =
      static_cast<std::uint32_t>(hash_of(pair.left, pair.right) >> 54) << kRankBits | rank;
}

}  // namespace harmonics::inline in_text
