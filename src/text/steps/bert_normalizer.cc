#include <array>

#include "normalizer.h"
#include "unicode.h"
#include "utf8.h"

namespace harmonics::inline in_text {
namespace {

constexpr char kDropped = '\0';

bool is_chinese(char32_t point) {
  const auto in = [point](char32_t first, char32_t last) {
    return point >= first && point <= last;
  };
  return in(0x4E00, 0x9FFF) || in(0x3400, 0x4DBF) || in(0x20000, 0x2A6DF) || in(0x2A700, 0x2B81F) ||
         in(0x2B920, 0x2CEAF) || in(0xF900, 0xFAFF) || in(0x2F800, 0x2FA1F);
}

/// Cleans, sets Chinese characters apart, strips accents and lowers, in this order. What an ASCII
/// character becomes stands in a table; the others are gathered until an ASCII one ends them,
/// since accents never move across one.
class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(const Section& section);
  [[nodiscard]] std::string apply(std::string_view text) const override;

 private:
  void gather(std::string& run, char32_t point) const;
  void flush(std::string& run, std::string& out) const;

  bool clean_;
  bool chinese_;
  bool lower_;
  bool strip_;
  std::array<char, 128> ascii_{};
};

BertNormalizer::BertNormalizer(const Section& section)
    : clean_(section.flag("clean_text")),
      chinese_(section.flag("handle_chinese_chars")),
      lower_(section.flag("lowercase")),
      strip_(section.flag("strip_accents", lower_)) {
  section.only({"clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  for (std::size_t i = 0; i < ascii_.size(); ++i) {
    char as = static_cast<char>(i);
    if (lower_ && as >= 'A' && as <= 'Z') as = static_cast<char>(as - 'A' + 'a');
    if (clean_ && (as == '\t' || as == '\n' || as == '\r')) as = ' ';
    if (clean_ && (static_cast<unsigned char>(as) < 0x20 || as == 0x7F)) as = kDropped;
    ascii_[i] = as;
  }
}

std::string BertNormalizer::apply(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  std::string run;  // not ASCII, cleaned, not yet stripped and lowered
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte >= 0x80) {
      gather(run, next_point(text, at));
      continue;
    }
    const char as = ascii_[byte];
    ++at;
    if (as == kDropped && clean_) continue;
    if (!run.empty()) flush(run, out);
    out += as;
  }
  flush(run, out);
  return out;
}

void BertNormalizer::gather(std::string& run, char32_t point) const {
  if (clean_ && (point == 0xFFFD || is_bert_control(point))) return;
  if (clean_ && is_space(point)) point = ' ';
  const bool apart = chinese_ && is_chinese(point);
  if (apart) run += ' ';
  append_point(run, point);
  if (apart) run += ' ';
}

void BertNormalizer::flush(std::string& run, std::string& out) const {
  std::string stripped;
  if (strip_) {
    std::string decomposed;
    append_normal_form(decomposed, NormalForm::kD, run);
    for (std::size_t at = 0; at < decomposed.size();) {
      const char32_t point = next_point(decomposed, at);
      if (!is_bert_accent(point)) append_point(stripped, point);
    }
    run = std::move(stripped);
  }
  for (std::size_t at = 0; at < run.size();) {
    const char32_t point = next_point(run, at);
    if (lower_) {
      append_lower(out, point);
    } else {
      append_point(out, point);
    }
  }
  run.clear();
}

}  // namespace

NormalizerPtr read_bert_normalizer(const Section& section) {
  return std::make_unique<BertNormalizer>(section);
}

}  // namespace harmonics::inline in_text
