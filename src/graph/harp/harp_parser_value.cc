// The small parts of the grammar: tokens, names, numbers, shapes, attributes.
#include <algorithm>
#include <cmath>
#include <limits>

#include <harmonics/base/listed.h>
#include <harmonics/base/number_text.h>

#include "builtin/shared_attributes.h"
#include "harp_parser.h"

namespace harmonics::inline in_graph {
namespace {

// What $(i * n + …) may come to; far above any sensible number of rounds, far below overflow.
constexpr std::int64_t kMaxPlaceholder = 1'000'000'000;

bool is_word_part(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool is_integer_text(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

const Token& HarpParser::peek(std::size_t ahead) const {
  return tokens_[std::min(position_ + ahead, tokens_.size() - 1)];
}

const Token& HarpParser::next() {
  const Token& token = peek();
  if (token.kind != TokenKind::kEnd) ++position_;
  return token;
}

bool HarpParser::at_symbol(std::string_view symbol, std::size_t ahead) const {
  return peek(ahead).kind == TokenKind::kSymbol && peek(ahead).text == symbol;
}

bool HarpParser::at_word(std::string_view word) const {
  return peek().kind == TokenKind::kName && peek().text == word;
}

bool HarpParser::accept(std::string_view symbol) {
  if (!at_symbol(symbol)) return false;
  ++position_;
  return true;
}

void HarpParser::expect(std::string_view symbol, std::string_view what) {
  if (!accept(symbol)) refuse(peek(), format("expected '{}' {}", symbol, what));
}

void HarpParser::refuse(const Token& token, std::string_view what) const {
  source_.refuse(token.offset, what);
}

void HarpParser::spend() {
  if (++steps_ > kMaxHarpSteps) {
    refuse(peek(), format("written out, this text has more than {} statements", kMaxHarpSteps));
  }
}

// Replaces $i and $(i + 1) by the values of the repeats around.
std::string HarpParser::expanded(const Token& token) const {
  std::string out;
  for (std::size_t i = 0; i < token.text.size();) {
    if (token.text[i] != '$') {
      out += token.text[i++];
      continue;
    }
    const std::size_t offset = token.offset + i;
    ++i;
    if (i < token.text.size() && token.text[i] == '(') {
      const std::size_t end = token.text.find(')', i);
      out += std::to_string(placeholder(token.text.substr(i + 1, end - i - 1), offset));
      i = end + 1;
    } else {
      const std::size_t begin = i;
      while (i < token.text.size() && is_word_part(token.text[i])) ++i;
      out += std::to_string(variable(token.text.substr(begin, i - begin), offset));
    }
  }
  return out;
}

std::int64_t HarpParser::variable(std::string_view name, std::size_t offset) const {
  for (const Variable& each : variables_) {
    if (each.name == name) return each.value;
  }
  source_.refuse(offset, variables_.empty() ? format("'${}' is used outside of a repeat", name)
                                            : format("no repeat around counts '{}'; there are: {}",
                                                     name, listed(variables_, &Variable::name)));
}

// variable [ (+ | - | *) number ]
std::int64_t HarpParser::placeholder(std::string_view text, std::size_t offset) const {
  const std::size_t op = text.find_first_of("+-*");
  std::int64_t result = variable(trimmed(text.substr(0, op)), offset);
  if (op != std::string_view::npos) {
    const std::string_view digits = trimmed(text.substr(op + 1));
    const auto number = number_from<std::int64_t>(digits);
    if (!is_integer_text(digits) || !number || *number > kMaxPlaceholder) {
      source_.refuse(offset, "expected $i or $(i + 1), $(i - 1), $(i * 2)");
    }
    result = text[op] == '+'   ? result + *number
             : text[op] == '-' ? result - *number
                               : result * *number;
  }
  if (result < 0 || result > kMaxPlaceholder) {
    source_.refuse(offset, format("this comes to {}; it must be 0 to {}", result, kMaxPlaceholder));
  }
  return result;
}

HarpName HarpParser::node_name(std::string_view what) {
  const Token& token = next();
  if (token.kind != TokenKind::kName) refuse(token, format("expected {}", what));
  HarpName name{expanded(token), token.offset};
  if (!is_user_name(name.text) && !is_boundary_name(name.text)) {
    refuse(token,
           format("'{}' is no valid name: use a letter or _, then letters, digits, _ or dots, "
                  "at most {} in all",
                  name.text, kMaxNameLength));
  }
  return name;
}

// A name, or any text in quotes.
std::string HarpParser::label(std::string_view what) {
  if (peek().kind != TokenKind::kString) return node_name(what).text;
  const Token& token = next();
  std::string text = unescaped(source_, token);
  if (text.size() > kMaxNameLength) {
    refuse(token, format("{} may have at most {} characters", what, kMaxNameLength));
  }
  return text;
}

std::int64_t HarpParser::integer(std::string_view what) {
  const std::string sign = accept("-") ? "-" : "";
  const Token& token = next();
  const std::string text =
      token.kind == TokenKind::kName ? expanded(token) : std::string(token.text);
  if (token.kind == TokenKind::kString || !is_integer_text(text)) {
    refuse(token, format("expected a whole number: {}", what));
  }
  const auto number = number_from<std::int64_t>(sign + text);
  if (!number) refuse(token, "this number is too large");
  return *number;
}

double HarpParser::real(std::string_view what) {
  const bool negative = accept("-");
  const Token& token = next();
  if (token.kind != TokenKind::kNumber) refuse(token, format("expected a number: {}", what));
  const auto number = number_from<double>(token.text);
  if (!number) refuse(token, "this number is too large or too small");
  return negative ? -*number : *number;
}

std::uint32_t HarpParser::gradient_slots() {
  const Token& token = peek();
  const std::int64_t slots = integer("how many gradients travel back");
  if (slots < 0 || slots > std::numeric_limits<std::uint32_t>::max()) {
    refuse(token, "this number of gradients is out of range");
  }
  return static_cast<std::uint32_t>(slots);
}

// {1, 28, 28} or {1 28 28}; a producer's or consumer's also {T, 384}, {T+1}, {2*T-1}
Shape HarpParser::shape(NamedExtents* named) {
  const Token& open = peek();
  expect("{", "before the numbers of a shape");
  Shape axes;
  while (!accept("}")) {
    if (peek().kind == TokenKind::kEnd) refuse(open, "this shape is not closed; add a '}'");
    if (axes.size() == kMaxShapeAxes) {
      refuse(peek(), format("a list may hold {} numbers", kMaxShapeAxes));
    }
    const bool is_name = peek().kind == TokenKind::kName && !is_integer_text(expanded(peek()));
    if (named != nullptr && (is_name || at_symbol("*", 1))) {
      named->push_back(named_extent(axes.size()));
      axes.push_back(0);
    } else {
      axes.push_back(integer("a shape is a list such as {1, 28, 28}"));
    }
    if (accept(",") && at_symbol("}")) refuse(peek(), "a number is missing after the comma");
  }
  return axes;
}

// [factor *] axis [(+ | -) offset]
NamedExtent HarpParser::named_extent(std::size_t position) {
  NamedExtent made{static_cast<std::uint32_t>(position), {}, 1, 0};
  const Token& first = peek();
  if (at_symbol("*", 1)) {
    made.factor = integer("how often the axis counts, as in {2*T}");
    expect("*", "before the axis");
  }
  HarpName name = node_name("an axis, as in {T, 384}");
  made.axis = name.text;
  tree_.axis_uses.push_back(std::move(name));
  if (at_symbol("+") || at_symbol("-")) {
    const bool less = next().text == "-";
    made.offset = integer("what is added to the axis, as in {T+1}");
    if (less) made.offset = -made.offset;
  }
  if (made.factor < 1 || made.factor > kMaxAxisCeiling || made.offset < -kMaxAxisCeiling ||
      made.offset > kMaxAxisCeiling) {
    refuse(first, format("a factor is 1 to {0}, an offset at most {0}", kMaxAxisCeiling));
  }
  return made;
}

// 1/2 input
Ratio HarpParser::ratio() {
  const Token& token = peek();
  Ratio made;
  made.numerator = integer("a ratio such as 1/2");
  expect("/", "in a ratio such as 1/2 input");
  made.denominator = integer("a ratio such as 1/2");
  if (made.numerator < 1 || made.denominator < 1) {
    refuse(token, "a ratio is made of two positive numbers");
  }
  made.of = node_name("what the ratio relates to, as in 1/2 input").text;
  return made;
}

Attribute HarpParser::value() {
  const Token& token = peek();
  if (at_symbol("{")) return shape();
  if (token.kind == TokenKind::kString) {
    std::string text = unescaped(source_, next());
    if (text.size() > kMaxAttributeTextLength) {
      refuse(token, format("a text may have {} characters", kMaxAttributeTextLength));
    }
    return text;
  }
  if (token.kind == TokenKind::kName) {
    const std::string word = expanded(token);
    if (is_integer_text(word)) return integer("a value");
    next();
    if (word == "true" || word == "false") return std::int64_t{word == "true"};
    return word;
  }
  const Token& number = peek(at_symbol("-") ? 1 : 0);
  if (number.kind != TokenKind::kNumber) {
    refuse(token, "expected a value: a number, true, false, a word, or a list such as {2, 2}");
  }
  if (is_integer_text(number.text)) return integer("a value");
  return real("a value");
}

// After the '(': values by position, then by name.
Attributes HarpParser::attributes(const LayerType& type) {
  Attributes made;
  const std::string known = listed(type.attributes, &AttributeSpec::name);
  bool named = false;
  std::size_t index = 0;
  while (!accept(")")) {
    const Token& token = peek();
    std::string name;
    if (token.kind == TokenKind::kName && at_symbol("=", 1)) {
      name = token.text;
      position_ += 2;
      named = true;
    } else if (named) {
      refuse(token, "a value without a name must stand before the named ones");
    } else if (index < type.attributes.size()) {
      name = type.attributes[index++].name;
    } else {
      refuse(token, format("{} takes {} values: {}", type.name, type.attributes.size(), known));
    }
    const auto is_it = [&](const AttributeSpec& spec) { return spec.name == name; };
    if (!is_shared_attribute(name) &&
        std::none_of(type.attributes.begin(), type.attributes.end(), is_it)) {
      refuse(token, format("{} has no attribute '{}'; it takes: {}", type.name, name, known));
    }
    if (made.contains(name)) refuse(token, format("'{}' is given twice", name));
    made.emplace(name, value());
    if (!accept(",") && !at_symbol(")")) refuse(peek(), "expected ',' or ')' after the value");
  }
  return made;
}

std::string HarpParser::setting_value() {
  const Token& token = peek();
  if (token.kind == TokenKind::kString) return unescaped(source_, next());
  const std::string sign = accept("-") ? "-" : "";
  const Token& word = next();
  const bool is_word = word.kind == TokenKind::kName && sign.empty();
  if (word.kind != TokenKind::kNumber && !is_word) {
    refuse(token, "expected a value: a number, a word, or a text in double quotes");
  }
  return sign + (is_word ? expanded(word) : std::string(word.text));
}

}  // namespace harmonics::inline in_graph
