#include "word_splits.h"

#include <array>

#include "utf8.h"

namespace harmonics::inline in_text {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Reads along one stretch of a text.
class Reader {
 public:
  Reader(std::string_view text, Span whole) : text_(text), at_(whole.begin), end_(whole.end) {}

  struct Next {
    char32_t point;
    CharKind kind;
    std::size_t after;
  };
  [[nodiscard]] bool done(std::size_t at) const { return at >= end_; }
  [[nodiscard]] Next look(std::size_t at) const {
    const auto byte = static_cast<unsigned char>(text_[at]);
    if (byte < 0x80) return {byte, ascii_kinds()[byte], at + 1};
    const char32_t point = next_point(text_, at);
    return {point, kind_of(point), at};
  }
  [[nodiscard]] bool is(std::size_t at, CharKind kind) const {
    return !done(at) && look(at).kind == kind;
  }
  [[nodiscard]] bool is_char(std::size_t at, char c) const { return !done(at) && text_[at] == c; }
  [[nodiscard]] bool is_line_end(std::size_t at) const {
    return is_char(at, '\r') || is_char(at, '\n');
  }
  /// Behind the run of `kind` that begins at `at`, of at most `most` characters.
  [[nodiscard]] std::size_t run(std::size_t at, CharKind kind, int most = -1) const {
    while (most != 0 && !done(at)) {
      const Next next = look(at);
      if (next.kind != kind) break;
      at = next.after;
      if (most > 0) --most;
    }
    return at;
  }

  [[nodiscard]] std::size_t at() const { return at_; }
  [[nodiscard]] std::size_t end() const { return end_; }
  Span take(std::size_t until) {
    const Span taken{static_cast<std::uint32_t>(at_), static_cast<std::uint32_t>(until)};
    at_ = until;
    return taken;
  }

 private:
  static const std::array<CharKind, 128>& ascii_kinds() {
    static const std::array<CharKind, 128> kKinds = [] {
      std::array<CharKind, 128> kinds{};
      for (char32_t point = 0; point < kinds.size(); ++point) kinds[point] = kind_of(point);
      return kinds;
    }();
    return kKinds;
  }

  std::string_view text_;
  std::size_t at_;
  std::size_t end_;
};

char lowered(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Behind an English contraction ('s, 're …) at `at`, or `at` itself.
std::size_t after_contraction(const Reader& reader, std::size_t at, std::string_view text,
                              bool any_case) {
  if (!reader.is_char(at, '\'') || reader.done(at + 1)) return at;
  if (any_case && text.substr(at + 1, 2) == "\xC5\xBF") return at + 3;  // long s folds to s
  const auto letter = [&](std::size_t i) {
    if (reader.done(at + i)) return '\0';
    return any_case ? lowered(text[at + i]) : text[at + i];
  };
  const char first = letter(1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  const char second = letter(2);
  const bool two = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                   (first == 'l' && second == 'l');
  return two ? at + 3 : at;
}

// \s+(?!\S)|\s+ : the run of spaces, without its last where something follows it and it has more.
std::size_t after_spaces(const Reader& reader) {
  std::size_t last = reader.at();
  std::size_t at = reader.at();
  while (reader.is(at, CharKind::kSpace)) {
    last = at;
    at = reader.look(at).after;
  }
  return at == reader.end() || last == reader.at() ? at : last;
}

// \s*[\r\n]+ : up to the last end of a line in the run of spaces, or where it begins.
std::size_t after_lines(const Reader& reader) {
  std::size_t found = reader.at();
  for (std::size_t at = reader.at(); reader.is(at, CharKind::kSpace);) {
    const bool line_end = reader.is_line_end(at);
    at = reader.look(at).after;
    if (line_end) found = at;
  }
  return found;
}

std::size_t gpt2_word(const Reader& reader, std::string_view text) {
  const std::size_t at = reader.at();
  if (const std::size_t after = after_contraction(reader, at, text, false); after != at) {
    return after;
  }
  const std::size_t start = reader.is_char(at, ' ') ? at + 1 : at;
  if (!reader.done(start)) {
    const CharKind kind = reader.look(start).kind;
    if (kind != CharKind::kSpace) return reader.run(start, kind);
  }
  return after_spaces(reader);
}

std::size_t llama_word(const Reader& reader, std::string_view text, int digits) {
  const std::size_t at = reader.at();
  if (const std::size_t after = after_contraction(reader, at, text, true); after != at) {
    return after;
  }
  const Reader::Next first = reader.look(at);
  if (first.kind == CharKind::kLetter) return reader.run(at, CharKind::kLetter);
  if (first.kind == CharKind::kNumber) return reader.run(at, CharKind::kNumber, digits);
  if (!reader.is_line_end(at) && reader.is(first.after, CharKind::kLetter)) {
    return reader.run(first.after, CharKind::kLetter);
  }
  const std::size_t start = first.point == ' ' ? first.after : at;
  if (reader.is(start, CharKind::kOther)) {
    std::size_t after = reader.run(start, CharKind::kOther);
    while (reader.is_line_end(after)) ++after;
    return after;
  }
  if (const std::size_t after = after_lines(reader); after != at) return after;
  return after_spaces(reader);
}

}  // namespace

void split_gpt2_words(std::string_view text, Span whole, std::vector<Span>& out) {
  Reader reader(text, whole);
  while (!reader.done(reader.at())) out.push_back(reader.take(gpt2_word(reader, text)));
}

WordSplit known_word_split(std::string_view pattern) {
  if (pattern == kGpt2) return split_gpt2_words;
  if (pattern != kLlama3 && pattern != kQwen2) return nullptr;
  const int digits = pattern == kLlama3 ? 3 : 1;
  return [digits](std::string_view text, Span whole, std::vector<Span>& out) {
    Reader reader(text, whole);
    while (!reader.done(reader.at())) out.push_back(reader.take(llama_word(reader, text, digits)));
  };
}

}  // namespace harmonics::inline in_text
