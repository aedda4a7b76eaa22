#include <harmonics/base/json.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <harmonics/base/error.h>

namespace harmonics::inline in_base {
namespace {

class Parser {
 public:
  Parser(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  Json whole() {
    Json value = any(0);
    space();
    if (at_ != text_.size()) broken("text after the end of the value");
    return value;
  }

 private:
  [[noreturn]] void broken(std::string_view what) const {
    fail(ErrorCode::kInvalidArgument, "{}: not valid JSON at byte {}: {}", name_, at_, what);
  }

  void space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }

  char peek() {
    space();
    if (at_ == text_.size()) broken("the text ends too early");
    return text_[at_];
  }

  void expect(char c) {
    if (peek() != c) broken(format("expected '{}', found '{}'", c, text_[at_]));
    ++at_;
  }

  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  Json any(int depth) {
    const char first = peek();
    if (depth == kMaxJsonDepth && (first == '{' || first == '[')) {
      broken(format("nested more than {} levels deep", kMaxJsonDepth));
    }
    switch (first) {
      case '{': return object(depth);
      case '[': return array(depth);
      case '"': return string();
      case 't': return word("true", true);
      case 'f': return word("false", false);
      case 'n': return word("null", nullptr);
      default: return number();
    }
  }

  Json word(std::string_view spelled, Json value) {
    if (text_.substr(at_, spelled.size()) != spelled) broken("unknown word");
    at_ += spelled.size();
    return value;
  }

  Json object(int depth) {
    expect('{');
    Json::Object members;
    if (accept('}')) return members;
    do {
      if (peek() != '"') broken("a member needs a quoted key");
      std::string key = string();
      expect(':');
      members.emplace_back(std::move(key), any(depth + 1));
    } while (accept(','));
    expect('}');
    refuse_duplicates(members);
    return members;
  }

  void refuse_duplicates(const Json::Object& members) const {
    std::vector<std::string_view> keys;
    keys.reserve(members.size());
    for (const auto& [key, value] : members) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) broken(format("the key '{}' stands twice", *twice));
  }

  Json array(int depth) {
    expect('[');
    Json::Array items;
    if (accept(']')) return items;
    do {
      items.push_back(any(depth + 1));
    } while (accept(','));
    expect(']');
    return items;
  }

  // -? (0 | 1-9 digits) (. digits)? (e sign? digits)?, which from_chars alone would take too
  // widely.
  Json number() {
    const std::size_t begin = at_;
    skip_one_of("-");
    if (!skip_one_of("0")) digits(begin);
    bool integral = true;
    if (skip_one_of(".")) {
      integral = false;
      digits(begin);
    }
    if (skip_one_of("eE")) {
      integral = false;
      skip_one_of("+-");
      digits(begin);
    }
    const char* first = text_.data() + begin;
    const char* last = text_.data() + at_;
    std::int64_t integer = 0;
    if (integral && std::from_chars(first, last, integer).ec == std::errc{}) return integer;
    double real = 0;
    if (std::from_chars(first, last, real).ec != std::errc{}) {
      at_ = begin;
      broken("a number beyond the range of a double");
    }
    return real;
  }

  bool skip_one_of(std::string_view characters) {
    if (at_ == text_.size() || characters.find(text_[at_]) == characters.npos) return false;
    ++at_;
    return true;
  }

  void digits(std::size_t begin_of_number) {
    const std::size_t begin = at_;
    while (skip_one_of("0123456789")) {
    }
    if (at_ != begin) return;
    at_ = begin_of_number;
    broken("not a value");
  }

  std::string string() {
    expect('"');
    std::string out;
    while (true) {
      if (at_ == text_.size()) broken("a string does not end");
      const char c = text_[at_++];
      if (c == '"') return out;
      if (static_cast<unsigned char>(c) < 0x20) broken("a control character in a string");
      if (c == '\\') {
        escape(out);
      } else {
        out.push_back(c);
      }
    }
  }

  void escape(std::string& out) {
    if (at_ == text_.size()) broken("a string does not end");
    const char c = text_[at_++];
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    if (const auto found = kFrom.find(c); found != kFrom.npos) {
      out.push_back(kTo[found]);
    } else if (c == 'u') {
      append_utf8(out, code_point());
    } else {
      broken("an unknown escape");
    }
  }

  // One \u escape, or the two that a character beyond 16 bits takes.
  std::uint32_t code_point() {
    const std::uint32_t high = hex4();
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || text_.substr(at_, 2) != "\\u") broken("half of a surrogate pair");
    at_ += 2;
    const std::uint32_t low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) broken("half of a surrogate pair");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  std::uint32_t hex4() {
    std::uint32_t value = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() < 4 || parsed.ptr != digits.data() + 4) broken("\\u needs four digits");
    at_ += 4;
    return value;
  }

  static void append_utf8(std::string& out, std::uint32_t point) {
    if (point < 0x80) {
      out.push_back(static_cast<char>(point));
      return;
    }
    const int extra = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    constexpr std::array<std::uint32_t, 4> kLead = {0, 0xC0, 0xE0, 0xF0};
    out.push_back(static_cast<char>(kLead[extra] | (point >> (6 * extra))));
    for (int i = extra - 1; i >= 0; --i) {
      out.push_back(static_cast<char>(0x80 | ((point >> (6 * i)) & 0x3F)));
    }
  }

  std::string_view text_;
  std::string_view name_;
  std::size_t at_ = 0;
};

std::string spell_double(double value) {
  if (!std::isfinite(value)) return "null";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, end.ptr);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

constexpr const char* kTypeNames[] = {"null",     "a boolean", "an integer", "a number",
                                      "a string", "an array",  "an object"};

}  // namespace

Json Json::parse(std::string_view text, std::string_view name) {
  return Parser(text, name).whole();
}

namespace {
template <typename T, typename Variant>
auto& get_or_fail(Variant& value, const char* wanted) {
  if (auto* found = std::get_if<T>(&value)) return *found;
  fail(ErrorCode::kInvalidArgument, "JSON: expected {}, found {}", wanted,
       kTypeNames[value.index()]);
}
}  // namespace

bool Json::as_bool() const { return get_or_fail<bool>(value_, "a boolean"); }
std::int64_t Json::as_integer() const { return get_or_fail<std::int64_t>(value_, "an integer"); }
double Json::as_number() const {
  if (is_integer()) return static_cast<double>(as_integer());
  return get_or_fail<double>(value_, "a number");
}
const std::string& Json::as_string() const { return get_or_fail<std::string>(value_, "a string"); }
const Json::Array& Json::as_array() const { return get_or_fail<Array>(value_, "an array"); }
const Json::Object& Json::as_object() const { return get_or_fail<Object>(value_, "an object"); }

const Json* Json::find(std::string_view key) const {
  const auto* members = std::get_if<Object>(&value_);
  if (members == nullptr) return nullptr;
  for (const auto& [name, value] : *members) {
    if (name == key) return &value;
  }
  return nullptr;
}

const Json& Json::at(std::string_view key) const {
  if (const Json* found = find(key)) return *found;
  fail(ErrorCode::kInvalidArgument, "JSON: the key '{}' is missing", key);
}

Json& Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = Object{};
  auto& members = get_or_fail<Object>(value_, "an object");
  for (auto& [name, old] : members) {
    if (name == key) {
      old = std::move(value);
      return *this;
    }
  }
  members.emplace_back(std::string(key), std::move(value));
  return *this;
}

Json& Json::push(Json value) {
  if (is_null()) value_ = Array{};
  get_or_fail<Array>(value_, "an array").push_back(std::move(value));
  return *this;
}

std::string Json::dump(int indent) const {
  std::string out;
  write(out, indent, 0);
  return out;
}

void Json::write(std::string& out, int indent, int level) const {
  const auto new_line = [&](int depth) {
    if (indent > 0) out.append("\n").append(static_cast<std::size_t>(indent) * depth, ' ');
  };
  const auto list = [&](const auto& items, char open, char close, auto&& one) {
    out.push_back(open);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i != 0) out.push_back(',');
      new_line(level + 1);
      one(items[i]);
    }
    if (!items.empty()) new_line(level);
    out.push_back(close);
  };
  if (is_null()) {
    out += "null";
  } else if (const auto* truth = std::get_if<bool>(&value_)) {
    out += *truth ? "true" : "false";
  } else if (const auto* integer = std::get_if<std::int64_t>(&value_)) {
    out += std::to_string(*integer);
  } else if (const auto* real = std::get_if<double>(&value_)) {
    out += spell_double(*real);
  } else if (is_string()) {
    out += json_quote(as_string());
  } else if (is_array()) {
    list(as_array(), '[', ']', [&](const Json& item) { item.write(out, indent, level + 1); });
  } else {
    list(as_object(), '{', '}', [&](const auto& member) {
      out += json_quote(member.first);
      out += indent > 0 ? ": " : ":";
      member.second.write(out, indent, level + 1);
    });
  }
}

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
  return out;
}

}  // namespace harmonics::inline in_base
