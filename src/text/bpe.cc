#include <algorithm>
#include <array>
#include <queue>

#include "merges.h"
#include "token_model.h"
#include "utf8.h"

namespace harmonics::inline in_text {
namespace {

constexpr std::size_t kShortWord = 48;  // up to here looking at all pairs beats a queue

/// The tokens of a word while they are merged.
class Word {
 public:
  Word(const Merges& merges, std::vector<TokenId>& ids) : merges_(merges), ids_(ids) {}
  void merge() {
    if (ids_.size() < 2) return;
    if (ids_.size() <= kShortWord) {
      merge_short();
    } else {
      merge_long();
    }
  }

 private:
  // Again and again the pair of the smallest rank, the leftmost of equals.
  void merge_short() {
    std::array<Merges::Merge, kShortWord> pairs;  // pairs[i]: ids_[i] and ids_[i + 1]
    std::size_t count = ids_.size() - 1;
    for (std::size_t i = 0; i < count; ++i) pairs[i] = merges_.find(ids_[i], ids_[i + 1]);
    while (count > 0) {
      std::size_t best = 0;
      for (std::size_t i = 1; i < count; ++i) {
        if (pairs[i].rank < pairs[best].rank) best = i;
      }
      if (!pairs[best].exists()) break;
      ids_[best] = pairs[best].id;
      ids_.erase(ids_.begin() + static_cast<std::ptrdiff_t>(best) + 1);
      std::copy(pairs.begin() + static_cast<std::ptrdiff_t>(best) + 1,
                pairs.begin() + static_cast<std::ptrdiff_t>(count),
                pairs.begin() + static_cast<std::ptrdiff_t>(best));
      --count;
      if (best > 0) pairs[best - 1] = merges_.find(ids_[best - 1], ids_[best]);
      if (best < count) pairs[best] = merges_.find(ids_[best], ids_[best + 1]);
    }
  }

  struct Symbol {
    TokenId id;
    std::int64_t previous;
    std::int64_t next;  // -1 for none
    bool gone = false;
  };
  struct Candidate {
    Merges::Merge merge;
    std::int64_t at;
    bool operator<(const Candidate& other) const {  // the queue's first is its greatest
      return merge.rank != other.merge.rank ? merge.rank > other.merge.rank : at > other.at;
    }
  };

  // The same in n log n.
  void merge_long() {
    const auto count = static_cast<std::int64_t>(ids_.size());
    std::vector<Symbol> symbols;
    symbols.reserve(ids_.size());
    for (std::int64_t i = 0; i < count; ++i) {
      symbols.push_back({ids_[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
    }
    const auto symbol = [&](std::int64_t i) -> Symbol& {
      return symbols[static_cast<std::size_t>(i)];
    };
    std::priority_queue<Candidate> queue;
    const auto consider = [&](std::int64_t at) {
      if (at < 0 || symbol(at).next < 0) return;
      const auto merge = merges_.find(symbol(at).id, symbol(symbol(at).next).id);
      if (merge.exists()) queue.push({merge, at});
    };
    for (std::int64_t i = 0; i + 1 < count; ++i) consider(i);
    while (!queue.empty()) {
      const Candidate top = queue.top();
      queue.pop();
      Symbol& left = symbol(top.at);
      if (left.gone || left.next < 0) continue;
      Symbol& right = symbol(left.next);
      if (merges_.find(left.id, right.id).rank != top.merge.rank) continue;  // no longer the pair
      left.id = top.merge.id;
      right.gone = true;
      left.next = right.next;
      if (left.next >= 0) symbol(left.next).previous = top.at;
      consider(left.previous);
      consider(top.at);
    }
    ids_.clear();
    for (std::int64_t i = 0; i >= 0; i = symbol(i).next) ids_.push_back(symbol(i).id);
  }

  const Merges& merges_;
  std::vector<TokenId>& ids_;
};

/// Byte-pair encoding: characters, merged by rank. What the vocabulary lacks is spelled in bytes
/// where it says so, else it is the unknown token, else it is left out, as the package does.
class Bpe final : public TokenModel {
 public:
  explicit Bpe(const Section& section);
  void append_ids(std::string_view piece, std::vector<std::int64_t>& out) const override;

 private:
  [[nodiscard]] std::optional<TokenId> id_of_character(std::string_view character, bool first,
                                                       bool last) const;
  void append_unknown(std::string_view character, std::vector<TokenId>& ids, bool& pending) const;

  std::string prefix_;
  std::string suffix_;
  bool fuse_unknown_;
  bool whole_words_;
  std::optional<TokenId> unknown_;
  std::optional<std::array<TokenId, 256>> byte_ids_;
  std::array<TokenId, 0x200> short_ids_{};  // ids of the first characters of Unicode; -1 for none
  Merges merges_;
};

Bpe::Bpe(const Section& section)
    : TokenModel(section),
      prefix_(section.text_or_empty("continuing_subword_prefix")),
      suffix_(section.text_or_empty("end_of_word_suffix")),
      fuse_unknown_(section.flag("fuse_unk", false)),
      whole_words_(section.flag("ignore_merges", false)),
      merges_(section, vocabulary(), prefix_) {
  section.only({"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (section.has("dropout") && section.value("dropout").as_number() != 0) {
    section.refuse("has a dropout, which would make ids a matter of chance");
  }
  if (section.has("unk_token") && !section.text("unk_token").empty()) {
    unknown_ = id_named(section, "unk_token");
  }
  if (section.flag("byte_fallback", false)) {
    std::array<TokenId, 256> ids;
    for (std::size_t byte = 0; byte < ids.size(); ++byte) {
      ids[byte] = vocabulary().find(format("<0x{:02X}>", byte)).value_or(-1);
    }
    byte_ids_ = ids;
  }
  for (std::size_t i = 0; i < short_ids_.size(); ++i) {
    std::string character;
    append_point(character, static_cast<char32_t>(i));
    short_ids_[i] = vocabulary().find(character).value_or(-1);
  }
}

std::optional<TokenId> Bpe::id_of_character(std::string_view character, bool first,
                                            bool last) const {
  const bool dressed = (!first && !prefix_.empty()) || (last && !suffix_.empty());
  if (dressed) {
    std::string spelled = first ? std::string() : prefix_;
    spelled += character;
    if (last) spelled += suffix_;
    return vocabulary().find(spelled);
  }
  std::size_t at = 0;
  const char32_t point = next_point(character, at);
  if (point >= short_ids_.size()) return vocabulary().find(character);
  if (short_ids_[point] < 0) return std::nullopt;
  return short_ids_[point];
}

void Bpe::append_unknown(std::string_view character, std::vector<TokenId>& ids,
                         bool& pending) const {
  if (byte_ids_) {
    const auto id = [&](char c) { return (*byte_ids_)[static_cast<unsigned char>(c)]; };
    if (std::ranges::all_of(character, [&](char c) { return id(c) >= 0; })) {
      for (const char c : character) ids.push_back(id(c));
      return;
    }
  }
  if (!unknown_) return;
  // An unknown token waits, so that those that follow can be fused with it.
  if (pending && !fuse_unknown_) ids.push_back(*unknown_);
  pending = true;
}

void Bpe::append_ids(std::string_view piece, std::vector<std::int64_t>& out) const {
  if (whole_words_) {
    if (const auto id = vocabulary().find(piece)) {
      out.push_back(*id);
      return;
    }
  }
  thread_local std::vector<TokenId> ids;
  ids.clear();
  bool pending = false;
  for (std::size_t at = 0; at < piece.size();) {
    const std::string_view character = piece.substr(at, point_bytes(piece[at]));
    const std::size_t after = at + character.size();
    if (const auto id = id_of_character(character, at == 0, after == piece.size())) {
      if (pending) ids.push_back(*unknown_);
      pending = false;
      ids.push_back(*id);
    } else {
      append_unknown(character, ids, pending);
    }
    at = after;
  }
  if (pending) ids.push_back(*unknown_);
  Word(merges_, ids).merge();
  out.insert(out.end(), ids.begin(), ids.end());
}

}  // namespace

TokenModelPtr read_bpe(const Section& section) { return std::make_unique<Bpe>(section); }

}  // namespace harmonics::inline in_text
