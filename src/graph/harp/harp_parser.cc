#include "harp_parser.h"

#include <algorithm>

#include <harmonics/base/listed.h>

namespace harmonics::inline in_graph {

HarpParser::HarpParser(const HarpSource& source) : source_(source), tokens_(harp_tokens(source)) {}

HarpTree HarpParser::run() {
  bool wrapped = false;
  bool bare = false;
  while (peek().kind != TokenKind::kEnd) {
    if (section()) continue;
    if (wrapped) {
      refuse(peek(), "only data, train and weights sections may stand beside 'harmonic { … }'");
    }
    if (at_word("harmonic")) {
      if (bare)
        refuse(peek(), "'harmonic' must enclose every declaration; move the earlier ones in");
      harmonic();
      wrapped = true;
    } else {
      declaration(Scope::kGraph);
      bare = true;
    }
  }
  if (!wrapped && !bare)
    refuse(peek(), "this text describes no graph: declare producers and layers");
  return std::move(tree_);
}

void HarpParser::harmonic() {
  next();
  tree_.name = label("the graph's name");
  block([this] {
    if (!section()) declaration(Scope::kGraph);
  });
}

bool HarpParser::section() {
  if (!at_symbol("{", 1)) return false;
  Settings* into = at_word("data")      ? &tree_.data
                   : at_word("train")   ? &tree_.train
                   : at_word("weights") ? &tree_.weights
                                        : nullptr;
  if (into == nullptr) return false;
  next();
  block([&] { settings(*into); });
  return true;
}

void HarpParser::settings(Settings& into) {
  const Token& token = peek();
  const std::string key = node_name("a setting such as epochs = 30").text;
  if (const Setting* earlier = into.find(key)) {
    refuse(token, format("'{}' is set twice; the first time in line {}", key, earlier->line));
  }
  if (into.entries.size() >= kMaxHarpSettings) {
    refuse(token, format("a section may hold {} settings", kMaxHarpSettings));
  }
  expect("=", "after the setting's name");
  into.entries.push_back({key, setting_value(), source_.line(token.offset)});
  expect(";", "after the setting");
}

void HarpParser::declaration(Scope scope) {
  spend();
  const Token& token = peek();
  if (at_word("layer")) return layer();
  if (at_word("repeat")) return repeat([this, scope] { declaration(scope); });
  if (scope == Scope::kGroup) {
    refuse(token, "a group holds only layers and repeats of layers; close it with '}' first");
  }
  if (at_word("axis")) return axis();
  if (at_word("producer")) return producer();
  if (at_word("consumer")) return consumer();
  if (at_word("group")) return group();
  if (at_word("cycle")) return cycle();
  if (at_word("harmonic"))
    refuse(token, "a text holds one 'harmonic', and it encloses all the rest");
  if (at_word("data") || at_word("train") || at_word("weights")) {
    refuse(
        token,
        "a data, train or weights section is '{ key = value; … }' and stands outside of repeats");
  }
  refuse(token,
         "expected axis, producer, consumer, layer, group, repeat, cycle, data, train or weights");
}

// axis T <= 2048; or, worked out at another value than the ceiling, axis T = 128 <= 2048;
void HarpParser::axis() {
  next();
  const HarpName name = node_name("the axis's name");
  HarpAxis made{{name.text}, name.offset};
  if (accept("=")) made.node.value = integer("the axis's value");
  expect("<=", "and the largest length: axis T <= 2048;");
  made.node.ceiling = integer("the largest length of the axis");
  if (made.node.value == 0) made.node.value = made.node.ceiling;
  expect(";", "after the axis");
  tree_.axes.push_back(std::move(made));
}

void HarpParser::producer() {
  next();
  const HarpName name = node_name("the producer's name");
  HarpProducer made{{name.text}, name.offset};
  if (at_symbol("{")) made.node.shape = shape(&made.node.extents);
  if (peek().kind == TokenKind::kName && !at_word("gradients")) {
    const Token& token = next();
    const std::optional<DType> dtype = dtype_from_name(token.text);
    if (!dtype) {
      refuse(token,
             format("'{}' is no element type; there are float32, float64, bfloat16, float16, "
                    "int64, int32, int8, uint8 and bool",
                    token.text));
    }
    made.node.dtype = *dtype;
  }
  if (peek().kind == TokenKind::kNumber) {
    const Token& token = peek();
    const Ratio aligned = ratio();
    if (aligned.numerator != aligned.denominator) {
      refuse(token, format("'{}' and '{}' can only advance in lock-step, which is 1/1", name.text,
                           aligned.of));
    }
    made.aligned_with = {aligned.of, token.offset};
  }
  if (at_word("gradients")) {
    next();
    made.node.gradient_slots = gradient_slots();
  }
  expect(";", "after the producer");
  tree_.producers.push_back(std::move(made));
}

void HarpParser::consumer() {
  next();
  const HarpName name = node_name("the consumer's name");
  HarpConsumer made{{name.text, {}}, name.offset};
  if (at_symbol("{")) made.node.shape = shape(&made.node.extents);
  if (at_word("gradients")) {
    next();
    made.node.gradient_slots = gradient_slots();
  }
  expect(";", "after the consumer");
  tree_.consumers.push_back(std::move(made));
}

void HarpParser::layer() {
  next();
  const HarpName name = node_name("the layer's name");
  HarpLayer made{{name.text}, name.offset};
  made.node.group = group_;
  const Token& type_token = peek();
  if (type_token.kind == TokenKind::kName) made.node.type = expanded(next());
  const LayerType* type = find_layer_type(made.node.type);
  if (type == nullptr) {
    refuse(type_token, format("layer '{}' has the unknown type '{}'; there are: {}", name.text,
                              made.node.type, listed(layer_type_names())));
  }
  if (accept("(")) made.node.attributes = attributes(*type);
  for (const AttributeSpec& spec : type->attributes) {
    if (spec.required && !made.node.attributes.contains(spec.name)) {
      refuse(type_token,
             format("layer '{}' ({}): '{}' is missing", name.text, type->name, spec.name));
    }
  }
  if (peek().kind == TokenKind::kNumber) {
    made.ratio_offset = peek().offset;
    if (type->name != "linear") {
      refuse(peek(),
             format("only a linear layer takes a ratio, '{}' is {}", name.text, type->name));
    }
    made.node.ratio = ratio();
  }
  expect(";", "after the layer");
  tree_.layers.push_back(std::move(made));
}

void HarpParser::group() {
  next();
  group_ = label("the group's name");
  block([this] { declaration(Scope::kGroup); });
  group_.clear();
}

void HarpParser::cycle() {
  next();
  block([this] { flow(); });
}

void HarpParser::repeat(const std::function<void()>& statement) {
  next();
  const Token& count_token = peek();
  const std::int64_t count = integer("how often to repeat");
  if (count < 1 || count > static_cast<std::int64_t>(kMaxHarpSteps)) {
    refuse(count_token, format("a repeat has 1 to {} rounds", kMaxHarpSteps));
  }
  if (!at_word("as")) refuse(peek(), "expected 'as' and a variable: repeat 12 as i { … }");
  next();
  const Token& token = peek();
  const std::string name = node_name("the repeat's variable").text;
  if (std::any_of(variables_.begin(), variables_.end(),
                  [&](const Variable& v) { return v.name == name; })) {
    refuse(token, format("'{}' already counts an outer repeat; take another variable", name));
  }
  variables_.push_back({name});
  const std::size_t start = position_;
  for (std::int64_t round = 1; round <= count; ++round) {
    spend();
    position_ = start;
    variables_.back().value = round;
    block(statement);
  }
  variables_.pop_back();
}

void HarpParser::block(const std::function<void()>& statement) {
  expect("{", "here");
  const Token& open = tokens_[position_ - 1];
  if (++depth_ > kMaxHarpDepth) {
    refuse(open, format("blocks nest more than {} deep here", kMaxHarpDepth));
  }
  while (!accept("}")) {
    if (peek().kind == TokenKind::kEnd) refuse(open, "this block is not closed; add a '}'");
    statement();
  }
  --depth_;
}

}  // namespace harmonics::inline in_graph
