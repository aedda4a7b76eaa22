#include "harp_binder.h"

#include <algorithm>
#include <map>
#include <utility>

#include <harmonics/base/listed.h>
#include <harmonics/base/nearest_word.h>

#include "builtin/shared_attributes.h"

namespace harmonics::inline in_graph {
namespace {

class Binder {
 public:
  Binder(const HarpSource& source, HarpTree tree) : source_(source), tree_(std::move(tree)) {}

  HarmonicGraph run() {
    declare();
    for (const HarpArrow& arrow : tree_.arrows) {
      if (arrow.is_tap) {
        bind_tap(arrow);
      } else {
        bind_forward(arrow);
      }
    }
    check_complete();
    return build();
  }

 private:
  using Index = std::map<std::string, std::size_t, std::less<>>;

  void declare_axes() {
    std::vector<std::string> known;
    for (const HarpAxis& axis : tree_.axes) {
      const auto earlier = std::ranges::find(known, axis.node.name);
      if (earlier != known.end()) {
        const auto index = static_cast<std::size_t>(earlier - known.begin());
        refuse_twice(axis.node.name, axis.offset, tree_.axes[index].offset);
      }
      known.push_back(axis.node.name);
    }
    for (const HarpName& use : tree_.axis_uses) {
      if (std::ranges::find(known, use.text) != known.end()) continue;
      source_.refuse(use.offset,
                     format("the axis '{}' is not declared: write axis {} <= 2048;{}", use.text,
                            use.text, suggestion(use.text, known)),
                     ErrorCode::kNotFound);
    }
  }

  void declare() {
    declare_axes();
    for (std::size_t i = 0; i < tree_.producers.size(); ++i) {
      claim_tensor(producers_, tree_.producers[i].node.name, i, tree_.producers[i].offset);
    }
    for (std::size_t i = 0; i < tree_.layers.size(); ++i) {
      claim_tensor(layers_, tree_.layers[i].node.name, i, tree_.layers[i].offset);
    }
    for (std::size_t i = 0; i < tree_.consumers.size(); ++i) {
      const auto [earlier, fresh] = consumers_.emplace(tree_.consumers[i].node.name, i);
      if (!fresh) {
        refuse_twice(earlier->first, tree_.consumers[i].offset,
                     tree_.consumers[earlier->second].offset);
      }
    }
    for (const HarpProducer& producer : tree_.producers) {
      const HarpName& other = producer.aligned_with;
      if (!other.text.empty() && !producers_.contains(other.text)) {
        source_.refuse(other.offset, format("'{}' is to advance with '{}', which is no producer{}",
                                            producer.node.name, other.text,
                                            suggestion_for(std::string(other.text))));
      }
    }
    for (const HarpLayer& layer : tree_.layers) {
      if (layer.node.ratio) need_tensor({layer.node.ratio->of, layer.ratio_offset});
    }
  }

  void claim_tensor(Index& index, const std::string& name, std::size_t position,
                    std::size_t offset) {
    if (const auto earlier = offset_of(name)) refuse_twice(name, offset, *earlier);
    index.emplace(name, position);
  }

  [[noreturn]] void refuse_twice(std::string_view name, std::size_t offset,
                                 std::size_t earlier) const {
    source_.refuse(offset, format("'{}' is declared twice; the first time at {}", name,
                                  source_.place(earlier)));
  }

  // Where a producer or layer was declared.
  [[nodiscard]] std::optional<std::size_t> offset_of(std::string_view name) const {
    if (const auto found = layers_.find(name); found != layers_.end()) {
      return tree_.layers[found->second].offset;
    }
    if (const auto found = producers_.find(name); found != producers_.end()) {
      return tree_.producers[found->second].offset;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::string suggestion_for(const std::string& name) const {
    std::vector<std::string> known;
    for (const Index* index : {&layers_, &producers_, &consumers_}) {
      for (const auto& [word, position] : *index) known.emplace_back(word);
    }
    return suggestion(name, known);
  }

  void need_tensor(const HarpName& name) const {
    if (!name.says_consumer && offset_of(name.text)) return;
    if (consumers_.contains(name.text)) {
      source_.refuse(name.offset,
                     format("'{}' is a consumer: nothing can be taken from it", name.text));
    }
    refuse_unknown(name);
  }

  [[noreturn]] void refuse_unknown(const HarpName& name) const {
    source_.refuse(
        name.offset,
        format("'{}' is not declared{}", name.text, suggestion_for(std::string(name.text))),
        ErrorCode::kNotFound);
  }

  void bind_forward(const HarpArrow& arrow) {
    for (const HarpName& from : arrow.sources) need_tensor(from);
    if (!arrow.function.text.empty() && find_activation_type(arrow.function.text) == nullptr) {
      source_.refuse(arrow.function.offset,
                     format("unknown activation '{}'; there are: {}", arrow.function.text,
                            listed(activation_type_names())));
    }
    const std::string& target = arrow.target.text;
    const auto layer = layers_.find(target);
    const auto consumer = consumers_.find(target);
    const bool is_layer = layer != layers_.end() && !arrow.target.says_consumer;
    if (is_layer) {
      bind_layer(arrow, tree_.layers[layer->second].node);
    } else if (consumer != consumers_.end()) {
      bind_consumer(arrow, tree_.consumers[consumer->second].node);
    } else if (producers_.contains(target)) {
      source_.refuse(arrow.target.offset,
                     format("'{}' is a producer: nothing can flow into it", target));
    } else {
      refuse_unknown(arrow.target);
    }
  }

  void bind_layer(const HarpArrow& arrow, LayerNode& node) {
    const std::size_t most = find_layer_type(node.type)->max_inputs + (takes_weight(node) ? 1 : 0);
    for (const HarpName& from : arrow.sources) {
      if (node.inputs.size() == most) {
        source_.refuse(
            from.offset,
            format("layer '{}' ({}) takes {} input{}, and it has '{}' already{}", node.name,
                   node.type, most, most == 1 ? "" : "s", node.inputs.back(),
                   consumers_.contains(node.name)
                       ? format("; for the consumer of that name write 'consumer {}'", node.name)
                       : ""));
      }
      node.inputs.push_back(from.text);
    }
    if (arrow.function.text.empty()) return;
    const auto [earlier, fresh] = activations_.emplace(node.name, arrow.function.offset);
    if (!fresh && node.activation != arrow.function.text) {
      source_.refuse(arrow.function.offset,
                     format("layer '{}' has the activation '{}' here and '{}' at {}", node.name,
                            arrow.function.text, node.activation, source_.place(earlier->second)));
    }
    node.activation = arrow.function.text;
  }

  void bind_consumer(const HarpArrow& arrow, ConsumerNode& node) {
    if (!node.input.empty() || arrow.sources.size() != 1) {
      source_.refuse(
          arrow.sources.back().offset,
          format("consumer '{}' takes one tensor{}", node.name,
                 node.input.empty() ? "" : format(", and it has '{}' already", node.input)));
    }
    node.input = arrow.sources.front().text;
    node.activation = arrow.function.text;
  }

  void bind_tap(const HarpArrow& arrow) {
    need_tensor(arrow.sources.front());
    need_tensor(arrow.target);
    if (find_loss_type(arrow.function.text) == nullptr) {
      source_.refuse(arrow.function.offset, format("unknown loss '{}'; there are: {}",
                                                   arrow.function.text, listed(loss_type_names())));
    }
    taps_.push_back(
        {arrow.function.text, arrow.sources.front().text, arrow.target.text, arrow.weight});
  }

  void check_complete() const {
    for (const HarpLayer& layer : tree_.layers) {
      const std::size_t least = find_layer_type(layer.node.type)->min_inputs;
      if (layer.node.inputs.size() < least) {
        source_.refuse(
            layer.offset,
            format("layer '{}' ({}) needs {} input{}, the cycle gives it {}", layer.node.name,
                   layer.node.type, least, least == 1 ? "" : "s", layer.node.inputs.size()));
      }
    }
    for (const HarpConsumer& consumer : tree_.consumers) {
      if (consumer.node.input.empty()) {
        source_.refuse(consumer.offset,
                       format("nothing in the cycle flows into consumer '{}'", consumer.node.name));
      }
    }
  }

  HarmonicGraph build() {
    GraphBuilder builder(tree_.name);
    for (const HarpAxis& axis : tree_.axes) builder.add(axis.node);
    for (HarpProducer& producer : tree_.producers) builder.add(std::move(producer.node));
    for (HarpLayer& layer : tree_.layers) builder.add(std::move(layer.node));
    for (HarpConsumer& consumer : tree_.consumers) builder.add(std::move(consumer.node));
    for (TrainingTap& tap : taps_) builder.add(std::move(tap));
    try {
      return builder.build();
    } catch (const Error& error) {
      source_.refuse(blamed(error.what()), error.what(), error.code());
    }
  }

  // The declaration of the first node that a builder's message names in quotes.
  [[nodiscard]] std::size_t blamed(std::string_view message) const {
    for (std::size_t open = message.find('\''); open != std::string_view::npos;) {
      const std::size_t close = message.find('\'', open + 1);
      if (close == std::string_view::npos) break;
      const std::string_view name = message.substr(open + 1, close - open - 1);
      if (const auto consumer = consumers_.find(name); consumer != consumers_.end()) {
        return tree_.consumers[consumer->second].offset;
      }
      if (const auto offset = offset_of(name)) return *offset;
      const auto axis = std::ranges::find(
          tree_.axes, name, [](const HarpAxis& each) { return std::string_view(each.node.name); });
      if (axis != tree_.axes.end()) return axis->offset;
      open = message.find('\'', close + 1);
    }
    return 0;
  }

  const HarpSource& source_;
  HarpTree tree_;
  Index producers_;
  Index layers_;
  Index consumers_;
  std::vector<TrainingTap> taps_;
  /// Where a layer's activation was given.
  std::map<std::string, std::size_t, std::less<>> activations_;
};

}  // namespace

HarmonicGraph bind_harp(const HarpSource& source, HarpTree tree) {
  return Binder(source, std::move(tree)).run();
}

}  // namespace harmonics::inline in_graph
