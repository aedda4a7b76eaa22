// Int8Stage: the stage of a graph that computes its part of an int8 network and proves it.
#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

#include "part_prover.h"

namespace harmonics::inline in_proven {
namespace {

[[noreturn]] void refuse_training(const HarmonicGraph& graph) {
  fail(
      ErrorCode::kUnimplemented,
      "'{}' proves what it computes, and training cannot be proven: use infer, evaluate or stream, "
      "or leave proofs out to train",
      graph.name());
}

// Where the layers of a part stand in the network. What belongs to a layer (its norm, its pool, …)
// may stand in the next part: it is computed with the layer.
PartLayers range_of(const HarmonicGraph& part, const Int8Network& network) {
  std::vector<std::size_t> held;
  for (const LayerNode& layer : part.layers()) {
    const auto found = std::ranges::find(network.layers, layer.name, &Int8Layer::name);
    if (found != network.layers.end()) {
      held.push_back(static_cast<std::size_t>(found - network.layers.begin()));
    } else if (layer.type == "linear" || layer.type == "conv2d") {
      fail(ErrorCode::kInvalidArgument,
           "layer '{}' of '{}' is not in the int8 network of graph '{}', which has: {}", layer.name,
           part.name(), network.graph, listed(network.layers, &Int8Layer::name));
    }
  }
  if (held.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "part '{}' has none of the layers that can be proven ({}): cut the graph into fewer parts",
         part.name(), listed(network.layers, &Int8Layer::name));
  }
  const auto [first, last] = std::ranges::minmax(held);
  if (last - first + 1 != held.size()) {
    fail(ErrorCode::kInvalidArgument, "part '{}' lacks layers between '{}' and '{}'", part.name(),
         network.layers[first].name, network.layers[last].name);
  }
  return {first, last};
}

class Int8Stage final : public StageBackend {
 public:
  Int8Stage(HarmonicGraph graph, NetworkPtr network, std::unique_ptr<PartProver> prover)
      : graph_(std::move(graph)), network_(std::move(network)), prover_(std::move(prover)) {
    producer_ = entering_producer();
    consumer_ = leaving_consumer();
  }

  [[nodiscard]] const HarmonicGraph& graph() const override { return graph_; }
  [[nodiscard]] std::string place() const override { return "cpu"; }
  [[nodiscard]] PrecisionPolicy precision() const override { return PrecisionPolicy::kFull; }
  [[nodiscard]] StageProver* prover() const override { return prover_.get(); }

  [[nodiscard]] NamedTensors infer(const NamedTensors& inputs) override;
  [[nodiscard]] NamedTensors evaluate(const NamedTensors& inputs, TapReport& report) override {
    NamedTensors outputs = infer(inputs);
    if (prover_->is_last()) judge_outputs(graph_, inputs, outputs.begin()->second, report);
    return outputs;
  }
  [[nodiscard]] NamedTensors forward(const MicroBatch&, const NamedTensors&, TapReport&) override {
    refuse_training(graph_);
  }
  [[nodiscard]] NamedTensors backward(const MicroBatch&, const NamedTensors&, double) override {
    refuse_training(graph_);
  }

  [[nodiscard]] std::map<std::string, double> gradient_square_sums() const override { return {}; }
  void update(const Update&) override { refuse_training(graph_); }
  void reset() override {}
  [[nodiscard]] std::string first_non_finite() override { return ""; }
  // The weights are secrets of the part: nobody reads or replaces them here.
  [[nodiscard]] NamedTensors parameters() const override { return {}; }
  [[nodiscard]] NamedTensors optimizer_state() const override { return {}; }
  [[nodiscard]] NamedTensors gradients() const override { return {}; }
  void set_parameters(const NamedTensors&) override { refuse_weights(); }
  void load_parameters(const ParameterReader&) override { refuse_weights(); }
  void set_optimizer_state(const NamedTensors&, std::int64_t) override {}
  void set_learning(const OptimizerOptions&, std::uint64_t) override {}
  [[nodiscard]] NamedTensors buffers() const override { return {}; }
  void set_buffers(const NamedTensors&) override { refuse_weights(); }

 private:
  [[nodiscard]] std::string entering_producer() const;
  [[nodiscard]] std::string leaving_consumer() const;
  [[noreturn]] void refuse_weights() const {
    fail(ErrorCode::kUnimplemented,
         "'{}' computes with the int8 network that its proofs are made of: give other weights by "
         "'harmonics quantize' and int8_proofs",
         graph_.name());
  }

  const HarmonicGraph graph_;
  const NetworkPtr network_;
  const std::unique_ptr<PartProver> prover_;
  std::string producer_;
  std::string consumer_;
};

std::string Int8Stage::entering_producer() const {
  for (const ProducerNode& node : graph_.producers()) {
    const bool is_named =
        prover_->is_first() ? node.name == network_->producer : is_boundary_name(node.name);
    const bool is_read = std::ranges::any_of(graph_.layers(), [&](const LayerNode& layer) {
      return std::ranges::find(layer.inputs, node.name) != layer.inputs.end();
    });
    if (is_named && is_read) return node.name;
  }
  fail(ErrorCode::kInvalidArgument,
       "part '{}' takes no tensor that the int8 network of graph '{}' enters by", graph_.name(),
       network_->graph);
}

std::string Int8Stage::leaving_consumer() const {
  for (const ConsumerNode& node : graph_.consumers()) {
    const bool leaves =
        prover_->is_last() ? !is_boundary_name(node.name) : is_boundary_name(node.name);
    if (leaves) return node.name;
  }
  return "";  // a graph that is only measured
}

NamedTensors Int8Stage::infer(const NamedTensors& inputs) {
  const auto given = inputs.find(producer_);
  if (given == inputs.end()) {
    fail(ErrorCode::kFailedPrecondition, "producer '{}' of graph '{}' has no data: bind it",
         producer_, graph_.name());
  }
  if (prover_->is_first()) {
    prover_->compute_rows(given->second);
  } else {
    prover_->compute_entering(given->second);
  }
  const Tensor& made = prover_->made();
  return {
      {consumer_, prover_->is_last() ? int8_output(*network_, made.values<std::int32_t>()) : made}};
}

class Int8Proofs final : public ProvingStages {
 public:
  Int8Proofs(Int8Network network, ProofKind kind)
      : network_(std::make_shared<const Int8Network>(std::move(network))), kind_(kind) {}

  [[nodiscard]] std::unique_ptr<StageBackend> make_stage(HarmonicGraph part) const override {
    const PartLayers range = range_of(part, *network_);
    std::unique_ptr<PartProver> prover;
    try {
      prover = kind_ == ProofKind::kParts ? make_network_prover(network_, range)
                                          : make_layer_prover(network_, range);
    } catch (const Error& error) {
      fail(error.code(), "part '{}': {}", part.name(), std::string_view(error.what()));
    }
    return std::make_unique<Int8Stage>(std::move(part), network_, std::move(prover));
  }

 private:
  const NetworkPtr network_;
  const ProofKind kind_;
};

}  // namespace

std::shared_ptr<const ProvingStages> int8_proofs(Int8Network network, ProofKind kind) {
  if (network.layers.empty()) {
    fail(ErrorCode::kInvalidArgument, "the int8 network of graph '{}' has no layers",
         network.graph);
  }
  return std::make_shared<Int8Proofs>(std::move(network), kind);
}

void judge_outputs(const HarmonicGraph& graph, const NamedTensors& batch, const Tensor& outputs,
                   TapReport& report) {
  for (const TrainingTap& tap : graph.taps()) {
    const auto target = batch.find(tap.target);
    if (tap.loss != "cross_entropy" || target == batch.end() || outputs.shape().size() != 2) {
      continue;
    }
    const std::span<const std::int64_t> labels = target->second.values<std::int64_t>();
    const std::span<const float> scores = outputs.values<float>();
    const auto width = static_cast<std::size_t>(outputs.shape()[1]);
    for (std::size_t i = 0; i < labels.size() && (i + 1) * width <= scores.size(); ++i) {
      const auto row = scores.subspan(i * width, width);
      ++report.judged;
      if (std::ranges::max_element(row) - row.begin() == labels[i]) ++report.correct;
    }
  }
}

}  // namespace harmonics::inline in_proven
