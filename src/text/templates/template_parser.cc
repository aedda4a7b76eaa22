#include <algorithm>
#include <array>

#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>

#include "templates/template_tree.h"

namespace harmonics::inline in_text {
namespace {

using Kind = TemplateExpression::Kind;

/// Reads the expressions of one tag.
class ExpressionReader {
 public:
  ExpressionReader(const std::vector<TemplateToken>& tokens, std::string_view name)
      : tokens_(tokens), name_(name) {}

  [[noreturn]] void refuse(const std::string& what) const {
    fail(ErrorCode::kInvalidArgument, "{}, line {}: {}", name_, peek().line, what);
  }

  const TemplateToken& peek() const { return tokens_[at_]; }
  bool at_end() const { return peek().kind == TemplateToken::Kind::kEnd; }
  bool is(std::string_view text) const {
    return (peek().kind == TemplateToken::Kind::kName ||
            peek().kind == TemplateToken::Kind::kSign) &&
           peek().text == text;
  }
  bool take(std::string_view text) {
    if (!is(text)) return false;
    ++at_;
    return true;
  }
  void need(std::string_view text) {
    if (!take(text)) refuse(format("'{}' is expected, not '{}'", text, peek().text));
  }
  std::string name() {
    if (peek().kind != TemplateToken::Kind::kName) {
      refuse(format("a name is expected, not '{}'", peek().text));
    }
    return tokens_[at_++].text;
  }
  void finish() const {
    if (!at_end()) refuse(format("'{}' is not expected here", peek().text));
  }

  TemplateExpression expression() {
    if (++depth_ > kMaxTemplateDepth) refuse("it nests too deeply");
    TemplateExpression value = either();
    if (take("if")) {
      TemplateExpression choice = made(Kind::kChoice, "if");
      choice.parts.push_back(either());
      choice.parts.push_back(std::move(value));
      choice.parts.push_back(take("else") ? expression() : made(Kind::kVariable, ""));
      value = std::move(choice);
    }
    --depth_;
    return value;
  }

 private:
  TemplateExpression made(Kind kind, std::string word) const {
    TemplateExpression out;
    out.kind = kind;
    out.word = std::move(word);
    out.line = peek().line;
    return out;
  }

  TemplateExpression joined(std::string word, TemplateExpression left, TemplateExpression right) {
    TemplateExpression out = made(Kind::kBinary, std::move(word));
    out.parts.push_back(std::move(left));
    out.parts.push_back(std::move(right));
    return out;
  }

  TemplateExpression either() {
    TemplateExpression left = both();
    while (take("or")) left = joined("or", std::move(left), both());
    return left;
  }

  TemplateExpression both() {
    TemplateExpression left = negation();
    while (take("and")) left = joined("and", std::move(left), negation());
    return left;
  }

  TemplateExpression negation() {
    if (!take("not")) return comparison();
    TemplateExpression out = made(Kind::kUnary, "not");
    out.parts.push_back(negation());
    return out;
  }

  TemplateExpression comparison() {
    TemplateExpression left = sum();
    for (;;) {
      const std::string word = peek().text;
      if (peek().kind == TemplateToken::Kind::kSign &&
          std::ranges::find(kComparisons, word) != kComparisons.end()) {
        ++at_;
        left = joined(word, std::move(left), sum());
      } else if (take("in")) {
        left = joined("in", std::move(left), sum());
      } else if (is("not") && tokens_[at_ + 1].text == "in") {
        at_ += 2;
        TemplateExpression out = made(Kind::kUnary, "not");
        out.parts.push_back(joined("in", std::move(left), sum()));
        left = std::move(out);
      } else {
        return left;
      }
    }
  }

  TemplateExpression sum() {
    TemplateExpression left = product();
    while (is("+") || is("-") || is("~")) {
      std::string sign = tokens_[at_++].text;
      left = joined(std::move(sign), std::move(left), product());
    }
    return left;
  }

  TemplateExpression product() {
    TemplateExpression left = unary();
    while (is("*") || is("/") || is("//") || is("%")) {
      std::string sign = tokens_[at_++].text;
      left = joined(std::move(sign), std::move(left), unary());
    }
    return left;
  }

  TemplateExpression unary() {
    if (take("-")) {
      TemplateExpression out = made(Kind::kUnary, "-");
      out.parts.push_back(unary());
      return out;
    }
    return filtered(reached(primary()));
  }

  // Filters and tests bind more tightly than any sign.
  TemplateExpression filtered(TemplateExpression value) {
    for (;;) {
      if (take("|")) {
        TemplateExpression out = made(Kind::kFilter, name());
        check_function(out);
        out.parts.push_back(std::move(value));
        if (take("(")) arguments(out);
        value = std::move(out);
      } else if (take("is")) {
        const bool negated = take("not");
        TemplateExpression test = made(Kind::kTest, name());
        check_function(test);
        test.parts.push_back(std::move(value));
        value = std::move(test);
        if (!negated) continue;
        TemplateExpression out = made(Kind::kUnary, "not");
        out.parts.push_back(std::move(value));
        value = std::move(out);
      } else {
        return value;
      }
    }
  }

  void check_function(const TemplateExpression& at) const {
    if (is_template_function(at.kind, at.word)) return;
    refuse(format("the {} '{}' is not known here",
                  at.kind == Kind::kFilter   ? "filter"
                  : at.kind == Kind::kMethod ? "method"
                  : at.kind == Kind::kTest   ? "test"
                                             : "function",
                  at.word));
  }

  // Members, items, slices and calls of methods.
  TemplateExpression reached(TemplateExpression value) {
    for (;;) {
      if (take(".")) {
        TemplateExpression out = made(Kind::kMember, name());
        out.parts.push_back(std::move(value));
        if (take("(")) {
          out.kind = Kind::kMethod;
          check_function(out);
          arguments(out);
        }
        value = std::move(out);
      } else if (take("[")) {
        value = item(std::move(value));
      } else {
        return value;
      }
    }
  }

  TemplateExpression item(TemplateExpression value) {
    TemplateExpression out = made(Kind::kItem, "[");
    out.parts.push_back(std::move(value));
    out.parts.push_back(is(":") ? made(Kind::kLiteral, "") : expression());
    if (take(":")) {
      out.kind = Kind::kSlice;
      out.parts.push_back(is("]") || is(":") ? made(Kind::kLiteral, "") : expression());
      if (take(":")) {
        out.parts.push_back(is("]") ? made(Kind::kLiteral, "") : expression());
      }
    }
    need("]");
    return out;
  }

  void arguments(TemplateExpression& call) {
    while (!take(")")) {
      const bool named = peek().kind == TemplateToken::Kind::kName && tokens_[at_ + 1].text == "=";
      call.names.push_back(named ? name() : "");
      if (named) need("=");
      call.parts.push_back(expression());
      if (!is(")")) need(",");
    }
  }

  TemplateExpression primary() {
    const TemplateToken& token = peek();
    switch (token.kind) {
      case TemplateToken::Kind::kText: {
        TemplateExpression out = made(Kind::kLiteral, "");
        std::string text = token.text;
        for (++at_; peek().kind == TemplateToken::Kind::kText; ++at_) text += peek().text;
        out.value = Json(std::move(text));
        return out;
      }
      case TemplateToken::Kind::kNumber: return number();
      case TemplateToken::Kind::kName: return named();
      case TemplateToken::Kind::kSign: return enclosed();
      case TemplateToken::Kind::kEnd: break;
    }
    refuse("something is missing at the end of a tag");
  }

  TemplateExpression number() {
    TemplateExpression out = made(Kind::kLiteral, "");
    const std::string& text = peek().text;
    if (const auto whole = number_from<std::int64_t>(text)) {
      out.value = Json(*whole);
    } else if (const auto real = number_from<double>(text)) {
      out.value = Json(*real);
    } else {
      refuse(format("'{}' is no number", text));
    }
    ++at_;
    return out;
  }

  TemplateExpression named() {
    TemplateExpression out = made(Kind::kVariable, name());
    const std::string& word = out.word;
    if (word == "true" || word == "True" || word == "false" || word == "False" || word == "none" ||
        word == "None") {
      out.kind = Kind::kLiteral;
      if (word[0] == 't' || word[0] == 'T') out.value = Json(true);
      if (word[0] == 'f' || word[0] == 'F') out.value = Json(false);
      return out;
    }
    if (!take("(")) return out;
    out.kind = Kind::kCall;
    check_function(out);
    arguments(out);
    return out;
  }

  TemplateExpression enclosed() {
    if (take("(")) {
      TemplateExpression inner = expression();
      if (is(",")) {  // a tuple
        TemplateExpression list = made(Kind::kList, "(");
        list.parts.push_back(std::move(inner));
        while (take(",") && !is(")")) list.parts.push_back(expression());
        inner = std::move(list);
      }
      need(")");
      return inner;
    }
    if (take("[")) {
      TemplateExpression list = made(Kind::kList, "[");
      while (!take("]")) {
        list.parts.push_back(expression());
        if (!is("]")) need(",");
      }
      return list;
    }
    if (take("{")) {
      TemplateExpression object = made(Kind::kObject, "{");
      while (!take("}")) {
        object.parts.push_back(expression());
        need(":");
        object.parts.push_back(expression());
        if (!is("}")) need(",");
      }
      return object;
    }
    refuse(format("'{}' is not expected here", peek().text));
  }

  static constexpr std::array<std::string_view, 6> kComparisons = {"==", "!=", "<",
                                                                   ">",  "<=", ">="};
  const std::vector<TemplateToken>& tokens_;
  std::string_view name_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

/// Reads pieces into nodes.
class NodeReader {
 public:
  NodeReader(std::vector<TemplatePiece> pieces, std::string_view name)
      : pieces_(std::move(pieces)), name_(name) {}

  std::vector<TemplateNode> all() {
    std::vector<TemplateNode> nodes = until({});
    if (at_ < pieces_.size()) refuse(pieces_[at_].line, "an end that nothing was begun for");
    return nodes;
  }

 private:
  [[noreturn]] void refuse(int line, const std::string& what) const {
    fail(ErrorCode::kInvalidArgument, "{}, line {}: {}", name_, line, what);
  }

  static bool is_tag(const TemplatePiece& piece, std::string_view word) {
    return piece.kind == TemplatePiece::Kind::kTag && piece.tokens.front().text == word;
  }

  // Nodes up to one of these tags, which stays.
  std::vector<TemplateNode> until(const std::vector<std::string_view>& ends) {
    if (++depth_ > kMaxTemplateDepth) refuse(1, "it nests too deeply");
    std::vector<TemplateNode> nodes;
    for (; at_ < pieces_.size(); ++at_) {
      const TemplatePiece& piece = pieces_[at_];
      const bool over =
          std::ranges::any_of(ends, [&](std::string_view end) { return is_tag(piece, end); });
      if (over) break;
      if (!add(nodes, piece)) break;
    }
    if (at_ == pieces_.size() && !ends.empty()) {
      refuse(pieces_.back().line, format("'{}' is missing", ends.back()));
    }
    --depth_;
    return nodes;
  }

  bool add(std::vector<TemplateNode>& nodes, const TemplatePiece& piece) {
    TemplateNode node;
    node.line = piece.line;
    if (piece.kind == TemplatePiece::Kind::kPlain) {
      node.text = piece.text;
      nodes.push_back(std::move(node));
      return true;
    }
    ExpressionReader reader(piece.tokens, name_);
    if (piece.kind == TemplatePiece::Kind::kPrint) {
      node.kind = TemplateNode::Kind::kPrint;
      node.expressions.push_back(reader.expression());
      reader.finish();
      nodes.push_back(std::move(node));
      return true;
    }
    const std::string word = reader.name();
    if (word == "generation" || word == "endgeneration") return true;  // marks training's targets
    if (word == "set") {
      add_set(node, reader);
    } else if (word == "if") {
      add_if(node, reader);
    } else if (word == "for") {
      add_for(node, reader);
    } else if (word.starts_with("end") || word == "else" || word == "elif") {
      return false;
    } else {
      reader.refuse(format("the tag '{}' is not known here", word));
    }
    nodes.push_back(std::move(node));
    return true;
  }

  void add_set(TemplateNode& node, ExpressionReader& reader) {
    node.kind = TemplateNode::Kind::kSet;
    node.text = reader.name();
    if (reader.take(".")) node.text += "." + reader.name();
    reader.need("=");
    node.expressions.push_back(reader.expression());
    reader.finish();
  }

  void add_if(TemplateNode& node, ExpressionReader& first) {
    node.kind = TemplateNode::Kind::kIf;
    node.expressions.push_back(first.expression());
    first.finish();
    for (bool last = false;;) {
      ++at_;
      node.bodies.push_back(last ? until({"endif"}) : until({"elif", "else", "endif"}));
      ExpressionReader reader(pieces_[at_].tokens, name_);
      const std::string word = reader.name();
      if (word == "elif") node.expressions.push_back(reader.expression());
      reader.finish();
      if (word == "endif") return;
      last = word == "else";
    }
  }

  void add_for(TemplateNode& node, ExpressionReader& reader) {
    node.kind = TemplateNode::Kind::kFor;
    node.text = reader.name();
    if (reader.take(",")) node.text += "," + reader.name();
    reader.need("in");
    node.expressions.push_back(reader.expression());
    const TemplateExpression& over = node.expressions.back();
    if (over.kind == Kind::kChoice && over.parts[2].word.empty()) {
      reader.refuse("a condition in the head of a loop is not known here");
    }
    reader.finish();
    ++at_;
    node.bodies.push_back(until({"endfor"}));
    ExpressionReader end(pieces_[at_].tokens, name_);
    (void)end.name();
    end.finish();
  }

  std::vector<TemplatePiece> pieces_;
  std::string_view name_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::vector<TemplateNode> parse_template(std::string_view text, std::string_view name) {
  return NodeReader(template_pieces(text, name), name).all();
}

}  // namespace harmonics::inline in_text
