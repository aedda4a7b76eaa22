#include "added_tokens.h"

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/text/tokenizer.h>

#include "utf8.h"

namespace harmonics::inline in_text {
namespace {

constexpr std::size_t kMaxFinderNodes = std::size_t{1} << 20;  // about a byte of a token each

std::size_t spaces_before(std::string_view text, std::size_t at) {
  while (at > 0) {
    std::size_t begin = at - 1;
    while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    if (!is_space(point_before(text, at))) break;
    at = begin;
  }
  return at;
}

std::size_t spaces_behind(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    std::size_t after = at;
    if (!is_space(next_point(text, after))) break;
    at = after;
  }
  return at;
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_word(point_before(text, begin))) return false;
  return end == text.size() || !is_word(next_point(text, end));
}

}  // namespace

void TokenFinder::add(const AddedToken& token, std::string_view text) {
  if (text.empty()) return;
  if (nodes_.size() + text.size() > kMaxFinderNodes) {
    fail(ErrorCode::kInvalidArgument, "the added tokens have more than {} bytes", kMaxFinderNodes);
  }
  if (nodes_.empty()) nodes_.emplace_back();
  begins_[static_cast<unsigned char>(text.front())] = true;
  std::uint32_t node = 0;
  for (const char c : text) {
    const auto made = static_cast<std::uint32_t>(nodes_.size());
    const auto [place, fresh] = nodes_[node].next.emplace(static_cast<unsigned char>(c), made);
    node = place->second;
    if (fresh) nodes_.emplace_back();
  }
  if (nodes_[node].token == nullptr) nodes_[node].token = &token;
}

const AddedToken* TokenFinder::longest_at(std::string_view text, std::size_t at,
                                          std::size_t& end) const {
  const AddedToken* found = nullptr;
  std::uint32_t node = 0;
  while (at < text.size()) {
    const auto next = nodes_[node].next.find(static_cast<unsigned char>(text[at]));
    if (next == nodes_[node].next.end()) break;
    node = next->second;
    ++at;
    if (nodes_[node].token != nullptr) {
      found = nodes_[node].token;
      end = at;
    }
  }
  return found;
}

std::vector<TokenFinder::Found> TokenFinder::split(std::string_view text) const {
  std::vector<Found> out;
  const auto add = [&](std::size_t begin, std::size_t end, const AddedToken* token) {
    out.push_back({{static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)}, token});
  };
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    const bool may = begins_[static_cast<unsigned char>(text[at])];
    const AddedToken* token = may ? longest_at(text, at, end) : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    at = end;
    if (token->single_word && !stands_alone(text, begin, end)) continue;
    if (token->strip_left) begin = std::max(spaces_before(text, begin), done);
    if (token->strip_right) end = spaces_behind(text, end);
    if (done < begin) add(done, begin, nullptr);
    add(begin, end, token);
    done = end;
  }
  if (done < text.size()) add(done, text.size(), nullptr);
  return out;
}

AddedTokens::AddedTokens(const Section& file, const Vocabulary& vocabulary,
                         const Normalizer* normalizer) {
  if (!file.has("added_tokens")) return;
  const std::vector<Section> items = file.items("added_tokens");
  if (items.size() > kMaxAddedTokens) {
    file.refuse(format("has {} added tokens, at most {}", items.size(), kMaxAddedTokens));
  }
  for (const Section& item : items) read(item, vocabulary);
  for (const auto& [id, token] : tokens_) {
    if (!token.normalized) {
      raw_.add(token, token.content);
    } else {
      normalized_.add(token,
                      normalizer != nullptr ? normalizer->apply(token.content) : token.content);
    }
  }
}

void AddedTokens::read(const Section& item, const Vocabulary& vocabulary) {
  item.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  AddedToken token;
  token.content = item.text("content");
  token.id = item.count("id", static_cast<std::int64_t>(kMaxVocabulary) - 1);
  token.special = item.flag("special", false);
  token.normalized = item.flag("normalized", !token.special);
  token.single_word = item.flag("single_word", false);
  token.strip_left = item.flag("lstrip", false);
  token.strip_right = item.flag("rstrip", false);
  check_token(item, token.content);
  if (token.content.empty()) item.refuse("is empty");
  const auto own = vocabulary.find(token.content);
  const bool clashes = own ? *own != token.id : vocabulary.token(token.id).has_value();
  if (clashes) {
    item.refuse(
        format("gives '{}' the id {}, but the vocabulary says otherwise", token.content, token.id));
  }
  largest_id_ = std::max(largest_id_, token.id);
  const std::int64_t id = token.id;
  const auto [place, fresh] = tokens_.emplace(id, std::move(token));
  if (!fresh || !by_content_.emplace(place->second.content, &place->second).second) {
    item.refuse(format("repeats the id {} or its token", id));
  }
}

const AddedToken* AddedTokens::by_id(std::int64_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

const AddedToken* AddedTokens::by_content(std::string_view content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? nullptr : found->second;
}

}  // namespace harmonics::inline in_text
