#include <harmonics/yaml/yaml_tree.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_yaml {
namespace {

// Open brackets that a text may have at one place, names and comments included.
constexpr int kMaxOpenBrackets = 64;

// The library's scanner keeps every token of a line or a bracket until it knows whether that is a
// key, so a hostile text must be refused before it sees one: by counting what can make a token,
// wherever it stands.
class ShapeCheck {
 public:
  ShapeCheck(std::string_view text, std::string_view file, std::size_t most_values)
      : text_(text), file_(file), most_values_(most_values) {}

  void run() {
    for (std::size_t k = 0; k < text_.size(); ++k) {
      const char letter = text_[k];
      if (letter == '[' || letter == '{') {
        if (++open_ > kMaxOpenBrackets) refuse("nested deeper than any file of this format");
      } else if (letter == ']' || letter == '}') {
        open_ = open_ > 0 ? open_ - 1 : 0;
      }
      if (makes_token(letter, k) && ++tokens_ > 2 * most_values_) {
        refuse(format("more than {} values", most_values_));
      }
      if (letter == '\n') ++line_;
    }
  }

 private:
  static bool is_space(char letter) { return letter == ' ' || letter == '\n' || letter == '\t'; }

  bool makes_token(char letter, std::size_t k) const {
    const char before = k == 0 ? '\n' : text_[k - 1];
    const char after = k + 1 == text_.size() ? '\n' : text_[k + 1];
    switch (letter) {
      case ',':
      case '[':
      case '{': return true;
      case '\n': return !is_space(after) && after != '#';
      case ':':
      case '-':
      case '?': return is_space(after) || before == '"' || before == '\'';
      case '&':
      case '*':
      case '!': return is_space(before) || before == ',' || before == '[' || before == '{';
      default: return false;
    }
  }

  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorCode::kInvalidArgument, "{}:{}: {}", file_, line_, what);
  }

  std::string_view text_;
  std::string_view file_;
  std::size_t most_values_;
  int line_ = 1;
  int open_ = 0;
  std::size_t tokens_ = 0;
};

// Builds the tree from the parser's events and stops the parser as soon as a limit is passed.
class TreeMaker final : public YAML::EventHandler {
 public:
  TreeMaker(std::string_view file, const YamlLimits& limits) : file_(file), limits_(limits) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add({YamlNode::Kind::kNull, line_of(mark), {}, {}, {}}, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto named = anchors_.find(anchor);
    if (named == anchors_.end()) refuse(mark, "an alias (*name) stands inside what it names");
    const Named& what = named->second;
    if (open_.size() + what.depth > limits_.depth) {
      refuse(mark, format("nested deeper than {} levels", limits_.depth));
    }
    count(what.values - 1, line_of(mark));
    YamlNode copy = what.node;
    copy.line = line_of(mark);
    add(std::move(copy), YAML::NullAnchor);
  }
  void OnAnchor(const YAML::Mark&, const std::string&) override {}
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    add({YamlNode::Kind::kScalar, line_of(mark), value, {}, {}}, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open(YamlNode::Kind::kSequence, mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open(YamlNode::Kind::kMap, mark, anchor);
  }
  void OnMapEnd() override {
    check_duplicates(open_.back().node);
    close();
  }

  YamlNode take() { return std::move(root_); }

 private:
  struct Open {
    YamlNode node;
    std::optional<std::string> key;  // of a map, waiting for its value
    YAML::anchor_t anchor = YAML::NullAnchor;
  };
  struct Named {
    YamlNode node;
    std::size_t values = 1;  // with all that is in it
    std::size_t depth = 0;   // levels below it, its own included
  };

  static int line_of(const YAML::Mark& mark) { return mark.line + 1; }
  [[noreturn]] void refuse_line(int line, std::string_view what) const {
    fail(ErrorCode::kInvalidArgument, "{}:{}: {}", file_, line, what);
  }
  [[noreturn]] void refuse(const YAML::Mark& mark, std::string_view what) const {
    refuse_line(line_of(mark), what);
  }
  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse(mark, "tags (!name) are not used in this format");
    }
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (open_.size() == limits_.depth) {
      refuse(mark, format("nested deeper than {} levels", limits_.depth));
    }
    open_.push_back({{kind, line_of(mark), {}, {}, {}}, {}, anchor});
  }

  void close() {
    YamlNode node = std::move(open_.back().node);
    const YAML::anchor_t anchor = open_.back().anchor;
    open_.pop_back();
    add(std::move(node), anchor);
  }

  void count(std::size_t values, int line) {
    values_ += values;
    if (values_ > limits_.values) {
      refuse_line(line, format("more than {} values", limits_.values));
    }
  }

  static void measure(const YamlNode& node, std::size_t level, Named& named) {
    const bool leaf = node.kind == YamlNode::Kind::kScalar || node.kind == YamlNode::Kind::kNull;
    if (!leaf) named.depth = std::max(named.depth, level + 1);
    named.values += node.items.size();
    for (const YamlNode& item : node.items) measure(item, level + 1, named);
  }

  // What an alias may ask for later. Copies count as values too: they take as much room.
  void keep(const YamlNode& node, YAML::anchor_t anchor) {
    if (anchor == YAML::NullAnchor) return;
    Named named{node, 1, 0};
    measure(node, 0, named);
    count(named.values, node.line);
    anchors_[anchor] = std::move(named);
  }

  void add(YamlNode node, YAML::anchor_t anchor) {
    count(1, node.line);
    keep(node, anchor);
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kMap && !parent.key) {
      if (node.kind != YamlNode::Kind::kScalar) refuse_line(node.line, "a key must be a name");
      parent.key = std::move(node.text);
      return;
    }
    if (parent.key) {
      parent.node.keys.push_back(std::move(*parent.key));
      parent.key.reset();
    }
    parent.node.items.push_back(std::move(node));
  }

  void check_duplicates(const YamlNode& map) const {
    std::vector<std::size_t> order(map.keys.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
      return map.keys[a] != map.keys[b] ? map.keys[a] < map.keys[b] : a < b;
    });
    for (std::size_t k = 1; k < order.size(); ++k) {
      if (map.keys[order[k - 1]] == map.keys[order[k]]) {
        refuse_line(map.items[order[k]].line,
                    format("the key '{}' is there twice", map.keys[order[k]]));
      }
    }
  }

  std::string_view file_;
  YamlLimits limits_;
  std::vector<Open> open_;
  YamlNode root_;
  std::size_t values_ = 0;
  std::map<YAML::anchor_t, Named> anchors_;
};

/// A '+' may stand before it.
template <typename Number>
std::optional<Number> number_in(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar) return std::nullopt;
  return number_from<Number>(node.text.substr(node.text.starts_with('+') ? 1 : 0));
}

}  // namespace

YamlNode parse_yaml(std::string_view text, std::string_view file, const YamlLimits& limits) {
  if (text.size() > limits.bytes) {
    fail(ErrorCode::kResourceExhausted, "{}: {} bytes, at most {} are read", file, text.size(),
         limits.bytes);
  }
  ShapeCheck(text, file, limits.values).run();
  TreeMaker maker(file, limits);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(maker);
    YamlNode root = maker.take();
    TreeMaker rest(file, limits);
    if (parser.HandleNextDocument(rest)) {
      fail(ErrorCode::kInvalidArgument, "{}:{}: a second document: there must be one per file",
           file, rest.take().line);
    }
    return root;
  } catch (const YAML::Exception& error) {
    fail(ErrorCode::kInvalidArgument, "{}:{}: not in order as YAML: {}", file, error.mark.line + 1,
         error.msg);
  }
}

void YamlValue::broken(std::string_view what) const {
  fail(ErrorCode::kInvalidArgument, "{}:{}: {}{}{}", file_, node_.line, path_,
       path_.empty() ? "" : ": ", what);
}

void YamlValue::expect(YamlNode::Kind kind, std::string_view what) const {
  if (!is_null() && node_.kind != kind) broken(format("must be {}", what));
}

void YamlValue::check_keys(const std::vector<std::string_view>& known) const {
  expect_map();
  for (std::size_t k = 0; k < node_.keys.size(); ++k) {
    if (std::ranges::find(known, node_.keys[k]) != known.end()) continue;
    item(k).broken(format("unknown key; there are: {}", joined(known)));
  }
}

bool YamlValue::has(std::string_view key) const {
  return std::ranges::find(node_.keys, key) != node_.keys.end();
}

YamlValue YamlValue::at(std::string_view key) const {
  expect_map();
  const auto found = std::ranges::find(node_.keys, key);
  if (found == node_.keys.end()) broken(format("the key '{}' is missing", key));
  return item(static_cast<std::size_t>(found - node_.keys.begin()));
}

YamlValue YamlValue::item(std::size_t k) const {
  if (node_.kind == YamlNode::Kind::kMap) {
    return {node_.items[k], file_, path_.empty() ? node_.keys[k] : path_ + "." + node_.keys[k]};
  }
  return {node_.items[k], file_, format("{}[{}]", path_, k + 1)};
}

std::vector<YamlValue> YamlValue::entries() const {
  std::vector<YamlValue> result;
  result.reserve(node_.items.size());
  for (std::size_t k = 0; k < node_.items.size(); ++k) result.push_back(item(k));
  return result;
}

const std::string& YamlValue::text() const {
  if (node_.kind != YamlNode::Kind::kScalar || node_.text.empty()) broken("must be a name");
  return node_.text;
}

double YamlValue::number() const {
  const auto value = number_in<double>(node_);
  if (!value) broken("must be a number");
  if (!std::isfinite(*value)) broken(format("'{}' is not finite", node_.text));
  if (*value < 0) broken(format("'{}' is negative", node_.text));
  return *value;
}

std::int64_t YamlValue::integer(std::int64_t least, std::int64_t most) const {
  const auto value = number_in<std::int64_t>(node_);
  if (!value) broken("must be a whole number");
  if (*value < least || *value > most) broken(format("{} is not in {}..{}", *value, least, most));
  return *value;
}

std::vector<double> YamlValue::numbers() const {
  expect_sequence();
  std::vector<double> values;
  values.reserve(node_.items.size());
  for (std::size_t k = 0; k < node_.items.size(); ++k) values.push_back(item(k).number());
  return values;
}

std::vector<std::int64_t> YamlValue::integers(std::int64_t least, std::int64_t most) const {
  expect_sequence();
  std::vector<std::int64_t> values;
  values.reserve(node_.items.size());
  for (std::size_t k = 0; k < node_.items.size(); ++k) {
    values.push_back(item(k).integer(least, most));
  }
  return values;
}

std::vector<std::string> YamlValue::texts() const {
  expect_sequence();
  std::vector<std::string> values;
  values.reserve(node_.items.size());
  for (std::size_t k = 0; k < node_.items.size(); ++k) values.push_back(item(k).text());
  return values;
}

}  // namespace harmonics::inline in_yaml
