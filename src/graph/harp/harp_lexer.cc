#include "harp_lexer.h"

#include <algorithm>

namespace harmonics::inline in_graph {
namespace {

constexpr std::size_t kShownColumns = 100;
// An unexpanded name: long enough for kMaxNameLength characters and a few $(…) in it.
constexpr std::size_t kMaxNameTokenBytes = 1'000;
constexpr std::size_t kMaxNumberTokenBytes = 100;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
// The second and later bytes of a UTF-8 character take no column of their own.
bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

std::size_t characters(std::string_view text) {
  return text.size() -
         static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_continuation));
}

class Lexer {
 public:
  explicit Lexer(const HarpSource& source) : source_(source), text_(source.text) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    for (skip_blank(); at_ < text_.size(); skip_blank()) tokens.push_back(next());
    tokens.push_back({TokenKind::kEnd, {}, text_.size()});
    return tokens;
  }

 private:
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void skip_blank() {
    while (at_ < text_.size()) {
      if (is_space(peek())) {
        ++at_;
      } else if (peek() == '#' || (peek() == '/' && peek(1) == '/')) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return;
      }
    }
  }

  Token next() {
    const char c = peek();
    if (is_letter(c) || c == '$') return name();
    if (is_digit(c)) return number();
    if (c == '"') return string();
    const std::string_view two = text_.substr(at_, 2);
    if (two == "->" || two == "<-" || two == "<=") return take(TokenKind::kSymbol, 2);
    if (std::string_view("{}(),;=*/|+-").find(c) != std::string_view::npos) {
      return take(TokenKind::kSymbol, 1);
    }
    source_.refuse(at_,
                   "this character means nothing here; names are made of letters, digits, _ "
                   "and dots, and other texts stand in double quotes");
  }

  Token take(TokenKind kind, std::size_t size) {
    const Token token{kind, text_.substr(at_, size), at_};
    at_ += size;
    return token;
  }

  // Letters, digits, _ . @ and the placeholders $i and $(i-1).
  Token name() {
    std::size_t size = 0;
    while (true) {
      const char c = peek(size);
      if (c == '$' && peek(size + 1) == '(') {
        const std::size_t end = text_.find(')', at_ + size);
        if (end == std::string_view::npos || end - at_ > kMaxNameTokenBytes) {
          source_.refuse(at_ + size, "this '$(' has no ')' in the same name");
        }
        size = end - at_ + 1;
      } else if (is_letter(c) || is_digit(c) || c == '.' || c == '@' || c == '$') {
        ++size;
      } else {
        break;
      }
      if (size > kMaxNameTokenBytes) source_.refuse(at_, "this name is too long");
    }
    return take(TokenKind::kName, size);
  }

  Token number() {
    std::size_t size = 0;
    const auto digits = [&] {
      while (is_digit(peek(size))) ++size;
    };
    digits();
    if (peek(size) == '.' && is_digit(peek(size + 1))) {
      ++size;
      digits();
    }
    if (peek(size) == 'e' || peek(size) == 'E') {
      const std::size_t sign = peek(size + 1) == '+' || peek(size + 1) == '-' ? 1 : 0;
      if (is_digit(peek(size + 1 + sign))) {
        size += 1 + sign;
        digits();
      }
    }
    const char after = peek(size);
    if (is_letter(after) || after == '.' || after == '$' || after == '@') {
      source_.refuse(at_,
                     "a name cannot begin with a digit, and a number must end before a letter; "
                     "put a text such as 1x8x8 in double quotes");
    }
    if (size > kMaxNumberTokenBytes) source_.refuse(at_, "this number is too long");
    return take(TokenKind::kNumber, size);
  }

  Token string() {
    const std::size_t start = at_++;
    while (peek() != '"') {
      if (at_ >= text_.size() || peek() == '\n') {
        source_.refuse(start, "this text is not closed; end it with a double quote on its line");
      }
      at_ += peek() == '\\' && at_ + 1 < text_.size() ? 2 : 1;
    }
    const Token token{TokenKind::kString, text_.substr(start + 1, at_ - start - 1), start};
    ++at_;
    return token;
  }

  const HarpSource& source_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::size_t HarpSource::line(std::size_t offset) const {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text.size()));
  return 1 + static_cast<std::size_t>(std::count(text.begin(), end, '\n'));
}

std::string HarpSource::place(std::size_t offset) const {
  return format("{}:{}", origin, line(offset));
}

void HarpSource::refuse(std::size_t offset, std::string_view what, ErrorCode code) const {
  offset = std::min(offset, text.size());
  const std::size_t before = text.substr(0, offset).rfind('\n');
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  const std::string_view head = text.substr(begin, offset - begin);
  std::string_view shown = text.substr(begin);
  shown = shown.substr(0, shown.find_first_of("\r\n"));
  std::size_t caret = std::min(head.size(), shown.size());
  if (caret > kShownColumns / 2) {  // show the neighbourhood of a place far to the right
    std::size_t cut = caret - kShownColumns / 2;
    while (cut < caret && is_continuation(shown[cut])) ++cut;
    shown.remove_prefix(cut);
    caret -= cut;
  }
  std::size_t length = std::min(shown.size(), kShownColumns);
  while (length < shown.size() && is_continuation(shown[length])) ++length;
  shown = shown.substr(0, length);
  std::string pointer;
  for (const char c : shown.substr(0, caret)) {
    if (!is_continuation(c)) pointer += c == '\t' ? '\t' : ' ';
  }
  harmonics::fail(code, "{}:{}: {}\n    {}\n    {}^", place(offset), characters(head) + 1, what,
                  shown, pointer);
}

std::vector<Token> harp_tokens(const HarpSource& source) { return Lexer(source).run(); }

std::string unescaped(const HarpSource& source, const Token& token) {
  std::string out;
  for (std::size_t i = 0; i < token.text.size(); ++i) {
    if (token.text[i] != '\\') {
      out += token.text[i];
      continue;
    }
    const char c = ++i < token.text.size() ? token.text[i] : '\0';
    if (c != 'n' && c != 't' && c != '"' && c != '\\') {
      source.refuse(token.offset + i, R"(unknown escape; there are \" \\ \n and \t)");
    }
    out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace harmonics::inline in_graph
