#include "export_boxes.h"

#include <map>

#include <harmonics/base/format.h>

namespace harmonics::inline in_graph {
namespace {

class BoxMaker {
 public:
  explicit BoxMaker(const HarmonicGraph& graph) : graph_(graph) {}

  BoxGraph make() {
    for (const ProducerNode& node : graph_.producers()) add_producer(node);
    for (std::size_t i = 0; i < graph_.layers().size(); ++i) add_layer(i);
    for (const ConsumerNode& node : graph_.consumers()) {
      made_.boxes.push_back({BoxKind::kConsumer, node.name, {}, {}});
      if (!node.activation.empty()) made_.boxes.back().details.push_back(node.activation);
      arrow(node.input);
    }
    for (const TrainingTap& tap : graph_.taps()) add_loss(tap);
    return std::move(made_);
  }

 private:
  void add_producer(const ProducerNode& node) {
    tensors_[node.name] = made_.boxes.size();
    made_.boxes.push_back(
        {BoxKind::kProducer,
         node.name,
         {format("{} {}", dtype_name(node.dtype),
                 node.shape ? named_shape_text(*node.shape, node.extents) : "of any shape")},
         {}});
  }

  void add_layer(std::size_t index) {
    const LayerNode& node = graph_.layers()[index];
    Box box{BoxKind::kLayer, node.name, {node.type}, node.group};
    if (!node.activation.empty()) box.details[0] += ", then " + node.activation;
    if (graph_.resolved()) {
      const LayerShape& shape = graph_.layer_shape(index);
      box.details[0] += format(" {}", graph_.shape_text_of(node.name));
      std::int64_t count = 0;
      for (const ParameterSpec& parameter : shape.parameters) {
        if (parameter.trainable) count += element_count(parameter.shape);
      }
      if (count != 0) box.details.push_back(format("{} parameters", grouped_digits(count)));
    }
    tensors_[node.name] = made_.boxes.size();
    made_.boxes.push_back(std::move(box));
    for (const std::string& input : node.inputs) arrow(input);
  }

  void add_loss(const TrainingTap& tap) {
    Box box{BoxKind::kLoss, tap.loss, {}, {}};
    if (tap.weight != 1.0) box.details.push_back(format("weight {}", tap.weight));
    made_.boxes.push_back(std::move(box));
    arrow(tap.prediction);
    arrow(tap.target);
    made_.arrows.back().is_target = true;
  }

  // From a tensor to the box that was added last.
  void arrow(const std::string& from) {
    made_.arrows.push_back({tensors_.at(from), made_.boxes.size() - 1});
  }

  const HarmonicGraph& graph_;
  BoxGraph made_;
  std::map<std::string, std::size_t, std::less<>> tensors_;
};

}  // namespace

BoxGraph boxes_of(const HarmonicGraph& graph) { return BoxMaker(graph).make(); }

std::string grouped_digits(std::int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool starts_group = i > 0 && (digits.size() - i) % 3 == 0 && digits[i - 1] != '-';
    if (starts_group) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace harmonics::inline in_graph
