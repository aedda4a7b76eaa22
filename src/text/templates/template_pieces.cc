#include <array>
#include <cctype>

#include <harmonics/base/error.h>

#include "templates/template_tree.h"

namespace harmonics::inline in_text {
namespace {

constexpr std::string_view kBlanks = " \t\n\r\f\v";

class PieceReader {
 public:
  PieceReader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  std::vector<TemplatePiece> run() {
    while (at_ < text_.size()) {
      const std::size_t open = next_tag();
      add_plain(text_.substr(at_, open - at_), open);
      at_ = open;
      if (open < text_.size()) add_tag(open);
    }
    return std::move(pieces_);
  }

 private:
  // Where the next "{{", "{%" or "{#" stands.
  std::size_t next_tag() const {
    for (std::size_t i = at_; i + 1 < text_.size(); ++i) {
      if (text_[i] == '{' && std::string_view("{%#").find(text_[i + 1]) != std::string_view::npos) {
        return i;
      }
    }
    return text_.size();
  }

  void add_plain(std::string_view plain, std::size_t open) {
    std::string kept(plain);
    if (swallows_line_ && kept.starts_with('\n')) kept.erase(0, 1);
    if (swallows_all_) {
      const std::size_t first = kept.find_first_not_of(kBlanks);
      kept.erase(0, std::min(first, kept.size()));
    }
    if (open < text_.size()) {
      const bool minus = open + 2 < text_.size() && text_[open + 2] == '-';
      if (minus) {
        const std::size_t last = kept.find_last_not_of(kBlanks);
        kept.erase(last == std::string::npos ? 0 : last + 1);
      } else if (text_[open + 1] != '{' && begins_line(plain)) {
        kept.erase(kept.find_last_not_of(" \t") + 1);
      }
    }
    if (!kept.empty()) pieces_.push_back({TemplatePiece::Kind::kPlain, kept, {}, line_});
    count_lines(plain);
  }

  // Whether only blanks stand between the start of a line and the tag that follows.
  bool begins_line(std::string_view plain) const {
    const std::size_t last = plain.find_last_not_of(" \t");
    return last == std::string_view::npos ? at_ == 0 : plain[last] == '\n';
  }

  void count_lines(std::string_view passed) {
    for (const char c : passed) line_ += c == '\n' ? 1 : 0;
  }

  void add_tag(std::size_t open) {
    const char kind = text_[open + 1];
    const std::string_view close = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    std::size_t begin = open + 2;
    const std::size_t end = kind == '#' ? text_.find(close, begin) : tag_end(begin, close);
    if (end == std::string_view::npos) refuse(line_, format("a tag has no end '{}'", close));
    std::string_view inner = text_.substr(begin, end - begin);
    if (inner.starts_with('-') || inner.starts_with('+')) inner.remove_prefix(1);
    swallows_all_ = inner.ends_with('-');
    if (swallows_all_) inner.remove_suffix(1);
    swallows_line_ = kind != '{';
    if (kind != '#') {
      pieces_.push_back({kind == '{' ? TemplatePiece::Kind::kPrint : TemplatePiece::Kind::kTag,
                         {},
                         tokens(inner),
                         line_});
    }
    count_lines(text_.substr(open, end + 2 - open));
    at_ = end + 2;
  }

  // The end of a tag, which no text within it can be.
  std::size_t tag_end(std::size_t i, std::string_view close) const {
    for (char quote = 0; i + 1 < text_.size(); ++i) {
      const char c = text_[i];
      if (quote != 0) {
        if (c == '\\') {
          ++i;
        } else if (c == quote) {
          quote = 0;
        }
      } else if (c == '\'' || c == '"') {
        quote = c;
      } else if (text_.substr(i, 2) == close && !(close == "}}" && text_.substr(i, 3) == "}}}")) {
        return i;
      }
    }
    return std::string_view::npos;
  }

  std::vector<TemplateToken> tokens(std::string_view inner) {
    std::vector<TemplateToken> all;
    int line = line_;
    for (std::size_t i = 0; i < inner.size();) {
      const char c = inner[i];
      if (kBlanks.find(c) != std::string_view::npos) {
        line += c == '\n' ? 1 : 0;
        ++i;
      } else if (c == '\'' || c == '"') {
        all.push_back({TemplateToken::Kind::kText, quoted(inner, i, line), line});
      } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
        const std::size_t end = std::min(inner.find_first_not_of("0123456789.", i), inner.size());
        all.push_back({TemplateToken::Kind::kNumber, std::string(inner.substr(i, end - i)), line});
        i = end;
      } else if (std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_') {
        std::size_t end = i;
        while (end < inner.size() &&
               (std::isalnum(static_cast<unsigned char>(inner[end])) != 0 || inner[end] == '_')) {
          ++end;
        }
        all.push_back({TemplateToken::Kind::kName, std::string(inner.substr(i, end - i)), line});
        i = end;
      } else {
        all.push_back({TemplateToken::Kind::kSign, sign(inner, i, line), line});
      }
    }
    all.push_back({TemplateToken::Kind::kEnd, {}, line});
    return all;
  }

  std::string sign(std::string_view inner, std::size_t& i, int line) const {
    for (const std::string_view two : {"==", "!=", "<=", ">=", "//", "**"}) {
      if (inner.substr(i, 2) != two) continue;
      i += 2;
      return std::string(two);
    }
    if (std::string_view("+-*/%~<>=.,:|()[]{}").find(inner[i]) == std::string_view::npos) {
      refuse(line, format("'{}' is no sign that is known", inner[i]));
    }
    return std::string(1, inner[i++]);
  }

  std::string quoted(std::string_view inner, std::size_t& i, int line) const {
    const char quote = inner[i++];
    std::string out;
    for (; i < inner.size() && inner[i] != quote; ++i) {
      if (inner[i] != '\\' || i + 1 >= inner.size()) {
        out += inner[i];
        continue;
      }
      const char next = inner[++i];
      switch (next) {
        case 'n': out += '\n'; break;
        case 't': out += '\t'; break;
        case 'r': out += '\r'; break;
        case '\\':
        case '\'':
        case '"': out += next; break;
        default: refuse(line, format("'\\{}' in a text is not known", next));
      }
    }
    if (i >= inner.size()) refuse(line, "a text has no end");
    ++i;
    return out;
  }

  [[noreturn]] void refuse(int line, const std::string& what) const {
    fail(ErrorCode::kInvalidArgument, "{}, line {}: {}", name_, line, what);
  }

  std::string_view text_;
  std::string_view name_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool swallows_line_ = false, swallows_all_ = false;
  std::vector<TemplatePiece> pieces_;
};

}  // namespace

std::vector<TemplatePiece> template_pieces(std::string_view text, std::string_view name) {
  if (text.size() > kMaxTemplateBytes) {
    fail(ErrorCode::kResourceExhausted, "{} has {} bytes, at most {} are read", name, text.size(),
         kMaxTemplateBytes);
  }
  return PieceReader(text, name).run();
}

}  // namespace harmonics::inline in_text
