#include "torch/recomputed_backend.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/units.h>

#include "torch_backend.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr std::size_t kMostAutoStretches = 64;

/// Where stretches may begin, with what lies there and between, in numbers a sample.
struct Place {
  std::size_t first_layer = 0;
  double inside = 0;  // what its layers make, up to the next place
  double across = 0;  // what was made before and is read from here on
};

std::vector<Place> places_of(const HarmonicGraph& graph, std::size_t wanted) {
  const std::size_t layers = graph.layers().size();
  std::vector<Place> places;
  for (const Unit& unit : graph_units(graph)) places.push_back({unit.first_layer});
  if (wanted > places.size()) {
    places.resize(layers);
    for (std::size_t i = 0; i < layers; ++i) places[i].first_layer = i;
  }
  std::vector<std::size_t> last_reads(layers, 0);
  for (std::size_t i = 0; i < layers; ++i) {
    for (const std::string& input : graph.layers()[i].inputs) {
      if (const auto made = graph.layer_index(input)) last_reads[*made] = i;
    }
  }
  for (std::size_t i = 0; i < layers; ++i) {
    const auto numbers = static_cast<double>(element_count(graph.layer_shape(i).output.shape));
    for (Place& place : places) {
      if (place.first_layer > i && place.first_layer <= last_reads[i]) place.across += numbers;
    }
    const auto next = std::ranges::upper_bound(places, i, {}, &Place::first_layer);
    std::prev(next)->inside += numbers;
  }
  return places;
}

/// First places of stretches none of which makes more than `most`, unless one place alone does.
std::vector<std::size_t> filled(const std::vector<Place>& places, double most) {
  std::vector<std::size_t> starts{0};
  double inside = places.front().inside;
  for (std::size_t i = 1; i < places.size(); ++i) {
    if (inside + places[i].inside > most) {
      starts.push_back(i);
      inside = 0;
    }
    inside += places[i].inside;
  }
  return starts;
}

/// `count` stretches or fewer, the largest of which is as small as it gets.
std::vector<std::size_t> even_stretches(const std::vector<Place>& places, std::size_t count) {
  double low = 0, high = 0;
  for (const Place& place : places) high += place.inside;
  std::vector<std::size_t> best{0};
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    std::vector<std::size_t> starts = filled(places, middle);
    if (starts.size() > count) {
      low = middle;
    } else {
      high = middle;
      best = std::move(starts);
    }
  }
  return best;
}

/// Numbers in memory when the most are there: what enters the stretches, and the largest of them.
double held_at_most(const std::vector<Place>& places, const std::vector<std::size_t>& starts) {
  double entering = 0, largest = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t end = i + 1 < starts.size() ? starts[i + 1] : places.size();
    double inside = 0;
    for (std::size_t place = starts[i]; place < end; ++place) inside += places[place].inside;
    entering += places[starts[i]].across;
    largest = std::max(largest, inside);
  }
  return entering + largest;
}

std::vector<std::size_t> first_layers(const HarmonicGraph& graph, std::size_t wanted) {
  const std::vector<Place> places = places_of(graph, wanted);
  std::vector<std::size_t> starts = even_stretches(places, std::max<std::size_t>(1, wanted));
  const std::size_t most = wanted > 0 ? 0 : std::min(places.size(), kMostAutoStretches);
  for (std::size_t count = 2; count <= most; ++count) {
    std::vector<std::size_t> others = even_stretches(places, count);
    if (held_at_most(places, others) < held_at_most(places, starts)) starts = std::move(others);
  }
  std::vector<std::size_t> layers;
  for (const std::size_t start : starts) layers.push_back(places[start].first_layer);
  return layers;
}

class RecomputedBackend final : public StageBackend {
 public:
  RecomputedBackend(const HarmonicGraph& graph, const RuntimeOptions& options, Device device)
      : graph_(graph) {
    const auto wanted = static_cast<std::size_t>(options.recompute);
    for (HarmonicGraph& part : cut_graph(graph, first_layers(graph, wanted))) {
      stretches_.push_back(std::make_unique<TorchBackend>(std::move(part), options, device));
    }
    for (const auto& stretch : stretches_) {
      for (const ProducerNode& node : stretch->graph().producers()) {
        if (!graph.producer_index(node.name)) inner_.insert(node.name);
      }
    }
  }

  const HarmonicGraph& graph() const override { return graph_; }
  std::string place() const override { return stretches_.front()->place(); }
  Device device() const override { return stretches_.front()->device(); }
  PrecisionPolicy precision() const override { return stretches_.front()->precision(); }

  NamedTensors infer(const NamedTensors& inputs) override {
    return walked(
        inputs, [](TorchBackend& stretch, const NamedTensors& own) { return stretch.infer(own); });
  }
  NamedTensors evaluate(const NamedTensors& inputs, TapReport& report) override {
    return walked(inputs, [&](TorchBackend& stretch, const NamedTensors& own) {
      return stretch.evaluate(own, report);
    });
  }

  NamedTensors forward(const MicroBatch& given, const NamedTensors& inputs,
                       TapReport& report) override {
    forget_last();
    MicroBatch micro_batch = given;
    micro_batch.only_learns = false;  // taps are told where they are first seen
    Flight flight{micro_batch, {}};
    NamedTensors outputs = walked(inputs, [&](TorchBackend& stretch, const NamedTensors& own) {
      NamedTensors made = stretch.forward(micro_batch, own, report);
      flight.entering.push_back(own);
      if (flight.entering.size() < stretches_.size()) stretch.forget(micro_batch);
      return made;
    });
    flights_.insert_or_assign(micro_batch.index, std::move(flight));
    newest_ = micro_batch.index;
    return outputs;
  }

  NamedTensors backward(const MicroBatch& micro_batch, const NamedTensors& gradients,
                        double loss_scale) override {
    const auto found = flights_.find(micro_batch.index);
    if (found == flights_.end()) {
      fail(ErrorCode::kFailedPrecondition, "micro-batch {} has had no forward pass",
           micro_batch.index);
    }
    const Flight flight = std::move(found->second);
    flights_.erase(found);
    bool there = newest_ == micro_batch.index;  // what the last stretch kept
    if (there) newest_.reset();
    NamedTensors known = gradients, answers;
    for (std::size_t i = stretches_.size(); i-- > 0; there = false) {
      if (!there) stretches_[i]->forward_again(flight.micro_batch, flight.entering[i]);
      for (auto& [name, answer] : stretches_[i]->backward(micro_batch, known, loss_scale)) {
        (inner_.contains(name) ? known : answers).insert_or_assign(name, std::move(answer));
      }
    }
    return answers;
  }

  std::map<std::string, double> gradient_square_sums() const override {
    return gathered(&TorchBackend::gradient_square_sums);
  }
  void update(const Update& update) override {
    for (const auto& stretch : stretches_) stretch->update(update);
    forget_flights();
  }
  void reset() override {
    for (const auto& stretch : stretches_) stretch->reset();
    forget_flights();
  }
  std::string first_non_finite() override {
    forget_last();
    for (const auto& [index, flight] : flights_) {
      for (std::size_t i = 0; i < stretches_.size(); ++i) {
        stretches_[i]->forward_again(flight.micro_batch, flight.entering[i]);
        std::string found = stretches_[i]->first_non_finite();
        stretches_[i]->forget(flight.micro_batch);
        if (!found.empty()) return found;
      }
    }
    return {};
  }

  NamedTensors parameters() const override { return gathered(&TorchBackend::parameters); }
  NamedTensors optimizer_state() const override { return gathered(&TorchBackend::optimizer_state); }
  NamedTensors gradients() const override { return gathered(&TorchBackend::gradients); }
  NamedTensors buffers() const override { return gathered(&TorchBackend::buffers); }
  void set_parameters(const NamedTensors& values) override {
    for (const auto& stretch : stretches_) stretch->set_parameters(values);
  }
  void load_parameters(const ParameterReader& read) override {
    for (const auto& stretch : stretches_) stretch->load_parameters(read);
  }
  void set_optimizer_state(const NamedTensors& values, std::int64_t updates_made) override {
    for (const auto& stretch : stretches_) stretch->set_optimizer_state(values, updates_made);
  }
  void set_learning(const OptimizerOptions& optimizer, std::uint64_t seed) override {
    for (const auto& stretch : stretches_) stretch->set_learning(optimizer, seed);
  }
  void set_gradients(const NamedTensors& values) override {
    for (const auto& stretch : stretches_) stretch->set_gradients(values);
  }
  void take_gradients(const NamedTensors& values) override {
    for (const auto& stretch : stretches_) stretch->take_gradients(values);
  }
  void listen_for_gradients(std::uint32_t last_micro_batch, GradientListener listener) override {
    for (const auto& stretch : stretches_) {
      stretch->listen_for_gradients(last_micro_batch, listener);
    }
  }
  void set_buffers(const NamedTensors& values) override {
    for (const auto& stretch : stretches_) stretch->set_buffers(values);
  }

 private:
  struct Flight {
    MicroBatch micro_batch;
    std::vector<NamedTensors> entering;  // by stretch
  };

  /// One stretch after another; what leaves the last and what leaves the stage on the way.
  template <typename Pass>
  NamedTensors walked(const NamedTensors& inputs, const Pass& pass) {
    NamedTensors known = inputs, outputs;
    for (const auto& stretch : stretches_) {
      NamedTensors own;
      for (const ProducerNode& node : stretch->graph().producers()) {
        if (auto given = known.extract(node.name)) own.insert(std::move(given));
      }
      for (auto& [name, made] : pass(*stretch, own)) {
        (inner_.contains(name) ? known : outputs).insert_or_assign(name, std::move(made));
      }
    }
    return outputs;
  }

  template <typename Map>
  Map gathered(Map (TorchBackend::*ask)() const) const {
    Map all;
    for (const auto& stretch : stretches_) all.merge((*stretch.*ask)());
    return all;
  }

  /// Only one micro-batch has all of its last stretch, which its backward pass wants first.
  void forget_last() {
    if (newest_) stretches_.back()->forget(flights_.at(*newest_).micro_batch);
    newest_.reset();
  }
  void forget_flights() {
    flights_.clear();
    newest_.reset();
  }

  HarmonicGraph graph_;
  std::vector<std::unique_ptr<TorchBackend>> stretches_;
  std::set<std::string, std::less<>> inner_;  // boundaries between stretches
  std::map<std::uint32_t, Flight> flights_;   // by number of the micro-batch
  std::optional<std::uint32_t> newest_;
};

}  // namespace

std::unique_ptr<StageBackend> make_recomputed_backend(const HarmonicGraph& graph,
                                                      const RuntimeOptions& options,
                                                      Device device) {
  return std::make_unique<RecomputedBackend>(graph, options, device);
}

}  // namespace harmonics::inline in_runtime
