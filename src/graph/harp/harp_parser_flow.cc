// Flow lines: what stands inside `cycle { … }`.
#include "harp_parser.h"

namespace harmonics::inline in_graph {

bool HarpParser::at_arrow(std::size_t ahead) const {
  return at_symbol("->", ahead) || at_symbol("-", ahead) || at_symbol("<-", ahead);
}

// [sources] arrow target … { | arrow target … } ;
void HarpParser::flow() {
  spend();
  // `repeat` and `if` are no reserved words: a node may carry these names.
  if (at_word("repeat") && !at_arrow(1) && !at_symbol(",", 1)) {
    return repeat([this] { flow(); });
  }
  if (at_word("if") && peek(1).kind == TokenKind::kName) {
    refuse(peek(), "a cycle has no conditions: every step runs the same graph");
  }
  std::vector<HarpName> from;
  if (at_arrow()) {
    if (!last_) refuse(peek(), "this is the first flow: name the node where it begins");
    from.push_back(*last_);
    from.back().offset = peek().offset;
  } else {
    do {
      from.push_back(flow_name());
    } while (accept(","));
  }
  last_ = chain(from);
  while (accept("|")) last_ = chain(from);
  expect(";", "after the flow");
}

// One arrow after the other; answers the node where the chain ends.
HarpName HarpParser::chain(std::vector<HarpName> from) {
  do {
    HarpName end = arrow(std::move(from));
    from = {std::move(end)};
  } while (at_arrow());
  return std::move(from.front());
}

HarpName HarpParser::arrow(std::vector<HarpName> from) {
  spend();
  if (at_symbol("<-")) {
    if (from.size() != 1) refuse(peek(), "a loss compares one prediction with its target");
    return tap(std::move(from.front()));
  }
  HarpArrow made;
  made.sources = std::move(from);
  if (accept("-")) {
    expect("(", "after '-': an arrow is '->' or '-(relu)->'");
    made.function = node_name("an activation");
    expect(")", "after the activation");
    expect("->", "to end the arrow");
  } else {
    expect("->", "here: a flow needs an arrow");
  }
  made.target = flow_name();
  if (at_symbol(",")) {
    refuse(peek(), "an arrow leads to one node; for several write a -> b | -> c;");
  }
  tree_.arrows.push_back(std::move(made));
  return tree_.arrows.back().target;
}

// prediction <-(loss [* weight])- target; a chain goes on from the prediction.
HarpName HarpParser::tap(HarpName prediction) {
  const Token& start = next();
  if (!accept("(")) {
    refuse(start, "a backward arrow needs a loss: output <-(cross_entropy)- labels;");
  }
  HarpArrow made;
  made.is_tap = true;
  made.sources.push_back(prediction);
  made.function = node_name("a loss");
  if (accept("*")) {
    const Token& token = peek();
    made.weight = real("the loss's weight");
    if (!(made.weight > 0)) refuse(token, "the weight of a loss must be above 0");
  }
  expect(")", "after the loss");
  expect("-", "to end the arrow <-(loss)-");
  made.target = flow_name();
  tree_.arrows.push_back(std::move(made));
  return prediction;
}

HarpName HarpParser::flow_name() {
  spend();
  const bool says_consumer = at_word("consumer") && peek(1).kind == TokenKind::kName;
  if (says_consumer) next();
  HarpName name = node_name("a node");
  name.says_consumer = says_consumer;
  return name;
}

}  // namespace harmonics::inline in_graph
