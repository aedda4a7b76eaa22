// Random graphs for property tests, here and in later modules (arrow harmonics_graph_testing).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/base/random.h>
#include <harmonics/graph/graph.h>

namespace harmonics::inline in_graph {

struct RandomGraphOptions {
  std::size_t min_layers = 6;  // not below 6
  std::size_t max_layers = 20;
  std::int64_t min_width = 4;
  std::int64_t max_width = 16;
  /// Runs of one to three layers share a group.
  bool groups = false;
  /// Every tensor is a sequence along the axis T (of at most 12): {T, width}, {2*T+1, width} …
  /// Without batch_norm, which takes no sequences.
  bool axes = false;
};

/// Draws one graph; every choice comes from `random_`.
class RandomGraphMaker {
 public:
  RandomGraphMaker(std::uint64_t seed, const RandomGraphOptions& options)
      : options_(options),
        odd_(seed % 2 == 1),
        random_(seed, "random_graph"),
        builder_(format("random_{}", seed)) {}

  HarmonicGraph make() {
    if (options_.axes) {
      builder_.axis("T", 12);
      length_ = Extent("T", 1 + static_cast<std::int64_t>(pick(2)), static_cast<int>(pick(2)));
    }
    layers_ = options_.min_layers + pick(options_.max_layers - options_.min_layers + 1);
    add_producer("input", width());
    add_producer("side", width());
    const std::int64_t stem = width();
    linear("stem", "input", stem);
    add_middle();
    linear("bridge", tensors_.back().name, stem);
    next_group();
    // From the first layer to the last: this skip spans every cut.
    builder_.layer("last", "add", {}, {"bridge", "stem"}, activation());
    tensors_.push_back({"last", stem});
    add_taps();
    builder_.consumer("output", "last", chance(2) ? "softmax" : "");
    if (chance(2)) builder_.consumer("middle", any().name);
    return builder_.build();
  }

 private:
  struct Sized {
    std::string name;
    std::int64_t width;
  };

  std::size_t pick(std::size_t below) { return static_cast<std::size_t>(random_.below(below)); }
  bool chance(std::size_t one_in) { return pick(one_in) == 0; }
  std::int64_t width() {
    return options_.min_width + static_cast<std::int64_t>(pick(static_cast<std::size_t>(
                                    options_.max_width - options_.min_width + 1)));
  }
  const Sized& any() { return tensors_[pick(tensors_.size())]; }
  std::string activation() {
    static const std::vector<std::string> kNames = {"",     "",        "relu", "tanh",
                                                    "gelu", "sigmoid", "prelu"};
    return kNames[pick(kNames.size())];
  }

  void next_group() {
    if (!options_.groups) return;
    if (left_in_group_ == 0) {
      left_in_group_ = 1 + pick(3);
      builder_.group(format("group{}", group_++));
    }
    --left_in_group_;
  }

  void declare(const std::string& name, std::int64_t size) {
    if (options_.axes) {
      builder_.named_producer(name, {length_, size});
    } else {
      builder_.producer(name, Shape{size});
    }
  }

  void add_producer(const std::string& name, std::int64_t size) {
    declare(name, size);
    tensors_.push_back({name, size});
  }

  void linear(const std::string& name, const std::string& input, std::int64_t out) {
    next_group();
    builder_.layer(name, "linear", {{"out", out}}, {input}, activation());
    tensors_.push_back({name, out});
  }

  void keep(const std::string& name, const std::string& type, const Sized& input) {
    next_group();
    const Sized from = input;  // tensors_ grows below
    builder_.layer(name, type, {}, {from.name}, activation());
    tensors_.push_back({name, from.width});
  }

  // Everything between stem and bridge: layers_ - 3 layers, at least three. The stem is used by the
  // first two (with `last` a fan-out of three), the input once more by the third.
  void add_middle() {
    const std::size_t count = layers_ - 3;
    const std::size_t norm_at = pick(count);
    const std::size_t dropout_at = (norm_at + 1 + pick(count - 1)) % count;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string name = format("layer{}", i);
      const Sized from = i < 2 ? tensors_[2] : i == 2 ? tensors_[0] : any();
      if (odd_ && i == norm_at) {
        keep(name, options_.axes ? "layer_norm" : "batch_norm", from);
      } else if (odd_ && i == dropout_at) {
        keep(name, "dropout", from);
      } else {
        add_random_layer(name, from);
      }
    }
  }

  void add_random_layer(const std::string& name, const Sized& from) {
    switch (pick(6)) {
      case 0: return keep(name, chance(2) ? "layer_norm" : "rms_norm", from);
      case 1: return keep(name, "identity", from);
      case 2: return combine(name, chance(2) ? "add" : "mul", from);
      case 3: return concat(name, from);
      default: return linear(name, from.name, width());
    }
  }

  // add or mul with one or two tensors of the same width; the tensor itself may be among them.
  void combine(const std::string& name, const std::string& type, const Sized& from) {
    next_group();
    std::vector<std::string> inputs = {from.name};
    const std::size_t wanted = 2 + pick(2);
    while (inputs.size() < wanted) {
      std::vector<std::string> fitting;
      for (const Sized& tensor : tensors_) {
        if (tensor.width == from.width) fitting.push_back(tensor.name);
      }
      inputs.push_back(fitting[pick(fitting.size())]);
    }
    builder_.layer(name, type, {}, inputs, activation());
    tensors_.push_back({name, from.width});
  }

  void concat(const std::string& name, const Sized& from) {
    const Sized other = any();
    if (from.width + other.width > options_.max_width) return linear(name, from.name, width());
    next_group();
    Attributes along;
    if (options_.axes) along["axis"] = std::int64_t{1};
    builder_.layer(name, "concat", along, {from.name, other.name}, activation());
    tensors_.push_back({name, from.width + other.width});
  }

  // The last layer always learns; every second graph has a second loss somewhere in the middle,
  // whose target is fresh data, the graph's own input, or another layer.
  void add_taps() {
    if (chance(2)) {
      std::vector<Extent> shape;
      if (options_.axes) shape.push_back(length_);
      builder_.named_producer("label", shape, DType::kInt64);
      builder_.tap("cross_entropy", "last", "label");
    } else {
      declare("target", tensors_.back().width);
      builder_.tap("mse", "last", "target");
    }
    if (chance(2)) return;
    const Sized prediction = tensors_[2 + pick(tensors_.size() - 2)];
    std::string target;
    for (const Sized& tensor : tensors_) {
      const bool fits = tensor.width == prediction.width && tensor.name != prediction.name;
      if (fits && (target.empty() || chance(2))) target = tensor.name;
    }
    if (target.empty() || chance(3)) {
      target = "second_target";
      declare(target, prediction.width);
    }
    builder_.tap("mse", prediction.name, target, 0.5);
  }

  const RandomGraphOptions options_;
  const bool odd_;
  Random random_;
  GraphBuilder builder_;
  Extent length_ = 1;
  std::size_t layers_ = 0;
  std::vector<Sized> tensors_;  // what a layer may use so far: input, side, stem, …
  std::size_t group_ = 0;
  std::size_t left_in_group_ = 0;
};

/// A resolved graph of 6 to 20 layers (linear, add, mul, concat, layer_norm, rms_norm, identity,
/// activations; odd seeds have a batch_norm and a dropout too). The first layer is used at least
/// three times and by the last layer, so that its skip spans every cut; the producer `input` is
/// used at least twice; there are one or two taps and one or two consumers. Some layers may lead
/// nowhere. The same seed and options give the same graph everywhere.
inline HarmonicGraph random_graph(std::uint64_t seed, const RandomGraphOptions& options = {}) {
  return RandomGraphMaker(seed, options).make();
}

}  // namespace harmonics::inline in_graph
