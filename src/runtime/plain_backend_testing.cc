#include "plain_backend_testing.h"

#include <utility>

#include <harmonics/base/error.h>

#include "inputs.h"
#include "plain_update_testing.h"
#include "start_weights.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr std::span<const float> kNoBias;

void check(const HarmonicGraph& graph) {
  for (const LayerNode& layer : graph.layers()) {
    if (layer.type != "linear" || !(layer.activation.empty() || layer.activation == "relu")) {
      fail(ErrorCode::kUnimplemented, "the plain backend lacks '{}' and '{}'", layer.type,
           layer.activation);
    }
  }
  for (const ConsumerNode& node : graph.consumers()) {
    if (!node.activation.empty() && node.activation != "softmax") {
      fail(ErrorCode::kUnimplemented, "the plain backend lacks '{}'", node.activation);
    }
  }
  for (const TrainingTap& tap : graph.taps()) {
    if (tap.loss != "cross_entropy") {
      fail(ErrorCode::kUnimplemented, "the plain backend lacks the loss '{}'", tap.loss);
    }
  }
}

const Tensor& input_of(const NamedTensors& inputs, const std::string& name) {
  const auto found = inputs.find(name);
  if (found == inputs.end()) {
    fail(ErrorCode::kFailedPrecondition, "producer '{}' has no data: bind it", name);
  }
  return found->second;
}

void add_values(Tensor& sum, std::span<const float> more) {
  const std::span<float> values = sum.mutable_values<float>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += more[i];
}

template <typename Map>
void add_to(Map& sums, const std::string& name, Rows&& rows) {
  if (const auto [place, added] = sums.try_emplace(name, std::move(rows)); !added) {
    place->second.add(rows);
  }
}

}  // namespace

PlainBackend::PlainBackend(HarmonicGraph graph, const RuntimeOptions& options)
    : graph_(std::move(graph)) {
  check(graph_);
  for (std::size_t i = 0; i < graph_.layers().size(); ++i) {
    for (const ParameterSpec& spec : graph_.layer_shape(i).parameters) {
      const std::string name = graph_.layers()[i].name + "." + spec.name;
      const Tensor start = start_weights(spec, DType::kFloat32, options.seed, name);
      parameters_[name] = Tensor::of<float>(start.shape(), start.values<float>());
      gradients_[name] = Tensor::zeros(start.shape());
    }
  }
}

PlainBackend::Flight PlainBackend::run(const NamedTensors& inputs) const {
  Flight flight;
  for (const LayerNode& layer : graph_.layers()) {
    const std::string& from = layer.inputs.front();
    if (!flight.values.contains(from)) flight.values.emplace(from, Rows(input_of(inputs, from)));
    const Tensor& weight = parameters_.at(layer.name + ".weight");
    const auto bias = parameters_.find(layer.name + ".bias");
    Rows output = linear(flight.values.at(from), weight.values<float>(),
                         bias == parameters_.end() ? kNoBias : bias->second.values<float>(),
                         static_cast<std::size_t>(weight.shape()[0]));
    if (!layer.activation.empty()) {
      for (float& value : output.values) value = std::max(value, 0.0F);
    }
    flight.values.emplace(layer.name, std::move(output));
  }
  return flight;
}

void PlainBackend::run_taps(const NamedTensors& inputs, Flight& flight, TapReport& report) const {
  for (const TrainingTap& tap : graph_.taps()) {
    if (!flight.values.contains(tap.prediction)) {
      flight.values.emplace(tap.prediction, Rows(input_of(inputs, tap.prediction)));
    }
    const Tensor& target = input_of(inputs, tap.target);
    Judged judged = cross_entropy(flight.values.at(tap.prediction), target.values<std::int64_t>());
    report.loss_sum += tap.weight * judged.loss;
    report.judged += target.size();
    report.correct += judged.correct;
    for (float& slope : judged.slopes.values) slope *= static_cast<float>(tap.weight);
    add_to(flight.slopes, tap.prediction, std::move(judged.slopes));
  }
}

NamedTensors PlainBackend::leave(const Flight& flight) const {
  NamedTensors outputs;
  for (const ConsumerNode& node : graph_.consumers()) {
    const Rows& rows = flight.values.at(node.input);
    outputs.emplace(node.name, (node.activation.empty() ? rows : softmax(rows)).tensor());
  }
  return outputs;
}

NamedTensors PlainBackend::infer(const NamedTensors& inputs) { return leave(run(inputs)); }

NamedTensors PlainBackend::evaluate(const NamedTensors& inputs, TapReport& report) {
  Flight flight = run(inputs);
  run_taps(inputs, flight, report);
  return leave(flight);
}

NamedTensors PlainBackend::forward(const MicroBatch& micro_batch, const NamedTensors& inputs,
                                   TapReport& report) {
  Flight flight = run(inputs);
  flight.batch_samples = micro_batch.batch_samples;
  run_taps(inputs, flight, report);
  NamedTensors outputs = leave(flight);
  flights_.insert_or_assign(micro_batch.index, std::move(flight));
  return outputs;
}

Rows PlainBackend::step_back(const LayerNode& layer, const Rows& input, const Rows& output,
                             Rows gradient) {
  if (!layer.activation.empty()) {
    for (std::size_t i = 0; i < gradient.values.size(); ++i) {
      if (output.values[i] <= 0) gradient.values[i] = 0;
    }
  }
  // The micro-batch's own first: that is what replicas add up, in this order.
  const std::string weight = layer.name + ".weight";
  const auto bias = gradients_.find(layer.name + ".bias");
  std::vector<float> to_weight(static_cast<std::size_t>(gradients_.at(weight).size()));
  std::vector<float> to_bias(bias == gradients_.end() ? 0 : gradient.width);
  Rows answer =
      linear_back(input, gradient, parameters_.at(weight).values<float>(), to_weight, to_bias);
  add_values(gradients_.at(weight), to_weight);
  if (bias != gradients_.end()) add_values(bias->second, to_bias);
  return answer;
}

NamedTensors PlainBackend::backward(const MicroBatch& micro_batch, const NamedTensors& gradients,
                                    double loss_scale) {
  const auto found = flights_.find(micro_batch.index);
  if (found == flights_.end()) {
    fail(ErrorCode::kFailedPrecondition, "micro-batch {} has had no forward pass",
         micro_batch.index);
  }
  const Flight flight = std::move(found->second);
  flights_.erase(found);
  std::map<std::string, Rows, std::less<>> sums;
  const double share = loss_scale / static_cast<double>(flight.batch_samples);
  for (const auto& [name, slopes] : flight.slopes) {
    Rows scaled = slopes;
    for (float& slope : scaled.values) slope = static_cast<float>(slope * share);
    add_to(sums, name, std::move(scaled));
  }
  for (const ConsumerNode& node : graph_.consumers()) {
    if (node.gradient_slots == 0) continue;
    const Tensor& all = input_of(gradients, node.name);
    for (std::uint32_t slot = 0; slot < node.gradient_slots; ++slot) {
      const Rows& like = flight.values.at(node.input);
      Rows one(like.rows, like.width);
      std::ranges::copy(all.slice(slot, slot + 1).values<float>(), one.values.begin());
      add_to(sums, node.input, std::move(one));
    }
  }
  for (auto layer = graph_.layers().rbegin(); layer != graph_.layers().rend(); ++layer) {
    const auto sum = sums.find(layer->name);
    if (sum == sums.end()) continue;
    const std::string& from = layer->inputs.front();
    add_to(sums, from,
           step_back(*layer, flight.values.at(from), flight.values.at(layer->name), sum->second));
    if (!listener_ || micro_batch.index != listened_micro_batch_) continue;
    for (const char* parameter : {".weight", ".bias"}) {
      const auto gradient = gradients_.find(layer->name + parameter);
      if (gradient != gradients_.end()) listener_(gradient->first, gradient->second);
    }
  }
  NamedTensors answer;
  for (const ProducerNode& node : graph_.producers()) {
    if (node.gradient_slots == 0) continue;
    if (node.gradient_slots > 1) {
      fail(ErrorCode::kUnimplemented, "the plain backend takes one gradient of '{}'", node.name);
    }
    const Tensor rows = sums.at(node.name).tensor();
    answer.emplace(node.name, rows.reshaped({1, rows.shape()[0], rows.shape()[1]}));
  }
  return answer;
}

std::map<std::string, double> PlainBackend::gradient_square_sums() const {
  return square_sums_of(gradients_);
}

void PlainBackend::update(const Update& update) {
  for (auto& [name, value] : parameters_) {
    Tensor next = Tensor::of<float>(value.shape(), value.values<float>());
    learn(next, gradients_.at(name), update);
    value = std::move(next);  // whoever was given the old one keeps it
  }
  reset();
}

void PlainBackend::reset() {
  flights_.clear();
  for (auto& [name, gradient] : gradients_) gradient = Tensor::zeros(gradient.shape());
}

std::string PlainBackend::first_non_finite() {
  for (const auto& [index, flight] : flights_) {
    for (const auto& [name, rows] : flight.values) {
      for (const float value : rows.values) {
        if (!std::isfinite(value)) return format("layer '{}'", name);
      }
    }
  }
  return {};
}

NamedTensors PlainBackend::parameters() const { return parameters_; }

NamedTensors PlainBackend::gradients() const {
  NamedTensors copies;
  for (const auto& [name, value] : gradients_) {
    copies.emplace(name, Tensor::of<float>(value.shape(), value.values<float>()));
  }
  return copies;
}

void PlainBackend::set_parameters(const NamedTensors& values) {
  NamedTensors all;  // checked whole before anything changes
  for (const auto& [name, value] : parameters_) {
    all.emplace(name, fitting_value(values, name, value.shape()));
  }
  parameters_ = std::move(all);
}

void PlainBackend::listen_for_gradients(std::uint32_t last_micro_batch, GradientListener listener) {
  listener_ = std::move(listener);
  listened_micro_batch_ = last_micro_batch;
}

void PlainBackend::set_gradients(const NamedTensors& values) {
  for (auto& [name, gradient] : gradients_) {
    if (!values.contains(name)) continue;
    const Tensor& value = fitting_value(values, name, gradient.shape());
    gradient = Tensor::of<float>(value.shape(), value.values<float>());
  }
}

}  // namespace harmonics::inline in_runtime
