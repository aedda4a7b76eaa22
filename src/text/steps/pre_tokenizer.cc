#include "pre_tokenizer.h"

#include <array>

#include "replacement.h"
#include "split_behavior.h"
#include "utf8.h"
#include "word_splits.h"

namespace harmonics::inline in_text {
namespace {

SplitBehavior behavior_of(const Section& section) {
  return static_cast<SplitBehavior>(section.choice(
      "behavior", {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}));
}

// Replaces the pieces by what `divide(text, piece, out)` makes of each.
void divide_each(Pieces& pieces, auto&& divide) {
  std::vector<Span> out;
  for (const Span span : pieces.spans) divide(pieces.text, span, out);
  pieces.spans = std::move(out);
}

// Matches of one character each, by a test of it.
std::vector<Span> characters_where(std::string_view text, Span span, auto&& test) {
  std::vector<Span> found;
  for (std::size_t at = span.begin; at < span.end;) {
    const auto begin = static_cast<std::uint32_t>(at);
    if (test(next_point(text, at))) found.push_back({begin, static_cast<std::uint32_t>(at)});
  }
  return found;
}

class BertPreTokenizer final : public PreTokenizer {
 public:
  BertPreTokenizer() {
    for (std::size_t i = 0; i < ascii_.size(); ++i) {
      const auto point = static_cast<char32_t>(i);
      ascii_[i] = is_space(point)              ? Role::kSpace
                  : is_bert_punctuation(point) ? Role::kPunctuation
                                               : Role::kPart;
    }
  }

  // Spaces divide and go; every punctuation mark is a piece of its own.
  void apply(Pieces& pieces) const override {
    divide_each(pieces, [this](std::string_view text, Span span, std::vector<Span>& out) {
      auto word = span.begin;
      const auto end_word = [&](std::uint32_t at) {
        if (word < at) out.push_back({word, at});
      };
      for (std::size_t at = span.begin; at < span.end;) {
        const auto begin = static_cast<std::uint32_t>(at);
        const Role role = role_of(text, at);
        if (role == Role::kPart) continue;
        end_word(begin);
        word = static_cast<std::uint32_t>(at);
        if (role == Role::kPunctuation) out.push_back({begin, word});
      }
      end_word(span.end);
    });
  }

 private:
  enum class Role : char { kPart, kSpace, kPunctuation };

  Role role_of(std::string_view text, std::size_t& at) const {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      ++at;
      return ascii_[byte];
    }
    const char32_t point = next_point(text, at);
    if (is_space(point)) return Role::kSpace;
    return is_bert_punctuation(point) ? Role::kPunctuation : Role::kPart;
  }

  std::array<Role, 128> ascii_{};
};

/// Divides where a character passes a test.
class CharacterSplit final : public PreTokenizer {
 public:
  CharacterSplit(bool (*test)(char32_t), SplitBehavior behavior)
      : test_(test), behavior_(behavior) {}
  void apply(Pieces& pieces) const override {
    divide_each(pieces, [this](std::string_view text, Span span, std::vector<Span>& out) {
      append_pieces(stretches_of(span, characters_where(text, span, test_)), behavior_, out);
    });
  }

 private:
  bool (*test_)(char32_t);
  SplitBehavior behavior_;
};

/// \w+|[^\w\s]+, the rest goes.
class WhitespacePreTokenizer final : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    divide_each(pieces, [](std::string_view text, Span span, std::vector<Span>& out) {
      int last = 0;
      for (std::size_t at = span.begin; at < span.end;) {
        const auto begin = static_cast<std::uint32_t>(at);
        const char32_t point = next_point(text, at);
        const int kind = is_word(point) ? 1 : is_space(point) ? 0 : 2;
        const auto end = static_cast<std::uint32_t>(at);
        if (kind != 0 && kind == last) {
          out.back().end = end;
        } else if (kind != 0) {
          out.push_back({begin, end});
        }
        last = kind;
      }
    });
  }
};

class SplitPreTokenizer final : public PreTokenizer {
 public:
  explicit SplitPreTokenizer(const Section& section)
      : finder_(section.at("pattern")),
        behavior_(behavior_of(section)),
        invert_(section.flag("invert", false)) {
    section.only({"pattern", "behavior", "invert"});
    // Such a pattern matches everything, so matches set apart are all that there is.
    if (behavior_ == SplitBehavior::kIsolated) words_ = known_word_split(finder_.expression());
  }

  void apply(Pieces& pieces) const override {
    divide_each(pieces, [this](std::string_view text, Span span, std::vector<Span>& out) {
      if (words_) return words_(text, span, out);
      std::vector<Span> matches = finder_.matches(text.substr(span.begin, span.size()));
      for (Span& match : matches) match = {match.begin + span.begin, match.end + span.begin};
      std::vector<Stretch> stretches = stretches_of(span, matches);
      for (Stretch& stretch : stretches) stretch.match ^= invert_;
      append_pieces(stretches, behavior_, out);
    });
  }

 private:
  Finder finder_;
  SplitBehavior behavior_;
  bool invert_;
  WordSplit words_;
};

class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(const Section& section) {
    section.only({"pretokenizers"});
    for (const Section& each : section.items("pretokenizers")) {
      steps_.push_back(read_pre_tokenizer(each));
    }
  }
  void apply(Pieces& pieces) const override {
    for (const PreTokenizerPtr& step : steps_) step->apply(pieces);
  }

 private:
  std::vector<PreTokenizerPtr> steps_;
};

PreTokenizerPtr read_character_split(const Section& section, const std::string& type) {
  if (type == "Digits") {
    section.only({"individual_digits"});
    const bool single = section.flag("individual_digits");
    return std::make_unique<CharacterSplit>(
        is_numeric, single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  if (type == "Punctuation") {
    section.only({"behavior"});
    return std::make_unique<CharacterSplit>(is_bert_punctuation, section.has("behavior")
                                                                     ? behavior_of(section)
                                                                     : SplitBehavior::kIsolated);
  }
  section.only({});
  return std::make_unique<CharacterSplit>(is_space, SplitBehavior::kRemoved);
}

}  // namespace

PreTokenizerPtr read_split(const Section& section) {
  return std::make_unique<SplitPreTokenizer>(section);
}

PreTokenizerPtr read_pre_tokenizer(const Section& section) {
  const std::string& type = section.text("type");
  if (type == "ByteLevel") return read_byte_level(section);
  if (type == "Metaspace") return read_metaspace(section);
  if (type == "Split") return read_split(section);
  if (type == "Sequence") return std::make_unique<PreTokenizerSequence>(section);
  if (type == "Digits" || type == "Punctuation" || type == "WhitespaceSplit") {
    return read_character_split(section, type);
  }
  if (type == "BertPreTokenizer" || type == "Whitespace") section.only({});
  if (type == "BertPreTokenizer") return std::make_unique<BertPreTokenizer>();
  if (type == "Whitespace") return std::make_unique<WhitespacePreTokenizer>();
  section.refuse_type({"BertPreTokenizer", "ByteLevel", "Split", "Digits", "Whitespace",
                       "WhitespaceSplit", "Punctuation", "Metaspace", "Sequence"});
}

}  // namespace harmonics::inline in_text
