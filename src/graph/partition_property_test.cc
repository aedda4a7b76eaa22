// What must hold for every cut of every graph, checked on random graphs and all part counts. The
// checks know nothing of how the cutter works: they read the parts alone and compare with the uncut
// graph.
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include <harmonics/base/random.h>
#include <harmonics/graph/blob.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/units.h>
#include <harmonics/graph/zoo.h>

#include "random_graph_testing.h"

namespace harmonics::inline in_graph {
namespace {

constexpr std::uint64_t kSeeds = 300;

using Parts = std::vector<HarmonicGraph>;

/// A tensor as one part knows it.
struct Local {
  std::size_t part = 0;
  std::string name;
};

/// The parts of one graph, with their boundaries joined.
class Joined {
 public:
  Joined(const HarmonicGraph& whole, const Parts& parts) : whole_(whole), parts_(parts) {
    for (std::size_t p = 0; p < parts.size(); ++p) {
      for (const ProducerNode& node : parts[p].producers()) {
        if (whole.producer_index(node.name)) {
          EXPECT_TRUE(owned_.insert(node.name).second) << node.name << " lives twice";
        } else {
          EXPECT_TRUE(receivers_.emplace(node.name, p).second) << node.name << " received twice";
        }
      }
      for (const LayerNode& node : parts[p].layers()) {
        EXPECT_TRUE(owned_.insert(node.name).second) << node.name << " lives twice";
      }
      for (const ConsumerNode& node : parts[p].consumers()) {
        if (!is_own_consumer(node.name)) {
          EXPECT_TRUE(senders_.emplace(node.name, p).second) << node.name << " sent twice";
        }
      }
    }
  }

  bool is_own_consumer(const std::string& name) const {
    return std::any_of(whole_.consumers().begin(), whole_.consumers().end(),
                       [&](const ConsumerNode& node) { return node.name == name; });
  }
  bool is_boundary(const std::string& name) const { return receivers_.contains(name); }
  const std::map<std::string, std::size_t>& receivers() const { return receivers_; }
  const std::map<std::string, std::size_t>& senders() const { return senders_; }
  std::size_t owned() const { return owned_.size(); }

  const ConsumerNode& sending_end(const std::string& boundary) const {
    const HarmonicGraph& part = parts_.at(senders_.at(boundary));
    return *std::find_if(part.consumers().begin(), part.consumers().end(),
                         [&](const ConsumerNode& node) { return node.name == boundary; });
  }
  const ProducerNode& receiving_end(const std::string& boundary) const {
    const HarmonicGraph& part = parts_.at(receivers_.at(boundary));
    return part.producers().at(part.producer_index(boundary).value());
  }

  /// What the uncut graph calls a tensor of a part.
  std::string origin(const std::string& name) const {
    std::string tensor = name;
    while (is_boundary(tensor)) tensor = sending_end(tensor).input;
    return tensor;
  }

  /// Uses of a tensor in the order in which the contract says their gradients are summed; each is
  /// "layer:input" or "prediction<-target" in the names of the uncut graph.
  std::vector<std::string> uses(const Local& tensor) const {
    const HarmonicGraph& part = parts_.at(tensor.part);
    std::vector<std::string> found;
    const auto add_taps = [&](std::optional<std::size_t> position) {
      for (const TrainingTap& tap : part.taps()) {
        const auto stands =
            std::max(part.layer_index(tap.prediction), part.layer_index(tap.target));
        if (tap.prediction == tensor.name && stands == position) {
          found.push_back(origin(tap.prediction) + "<-" + origin(tap.target));
        }
      }
    };
    add_taps(std::nullopt);
    for (std::size_t i = 0; i < part.layers().size(); ++i) {
      const LayerNode& layer = part.layers()[i];
      for (std::size_t k = 0; k < layer.inputs.size(); ++k) {
        if (layer.inputs[k] == tensor.name) found.push_back(format("{}:{}", layer.name, k));
      }
      add_taps(i);
    }
    for (const ConsumerNode& node : part.consumers()) {
      if (node.input != tensor.name || !is_boundary(node.name)) continue;
      const auto remote = uses({receivers_.at(node.name), node.name});
      found.insert(found.end(), remote.begin(), remote.end());
    }
    return found;
  }

 private:
  const HarmonicGraph& whole_;
  const Parts& parts_;
  std::set<std::string> owned_;
  std::map<std::string, std::size_t> receivers_;  // boundary -> part with the producer
  std::map<std::string, std::size_t> senders_;    // boundary -> part with the consumer
};

/// Layers of the uncut graph from which a loss can be reached.
std::set<std::string> learning_layers(const HarmonicGraph& graph) {
  std::set<std::string> learning;
  for (bool grew = true; grew;) {
    const std::size_t before = learning.size();
    for (const TrainingTap& tap : graph.taps()) learning.insert(tap.prediction);
    for (const LayerNode& layer : graph.layers()) {
      if (learning.contains(layer.name)) learning.insert(layer.inputs.begin(), layer.inputs.end());
    }
    grew = learning.size() != before;
  }
  return learning;
}

void check_layers(const HarmonicGraph& whole, const Parts& parts, const Joined& joined) {
  std::size_t next = 0;
  for (const HarmonicGraph& part : parts) {
    EXPECT_FALSE(part.layers().empty());
    for (std::size_t i = 0; i < part.layers().size(); ++i, ++next) {
      ASSERT_LT(next, whole.layers().size());
      const LayerNode& cut = part.layers()[i];
      const LayerNode& own = whole.layers()[next];
      EXPECT_EQ(cut.name, own.name);  // runs of graph order, each layer once
      EXPECT_EQ(cut.type, own.type);
      EXPECT_EQ(cut.activation, own.activation);
      EXPECT_EQ(cut.group, own.group);
      EXPECT_FALSE(cut.ratio.has_value());
      EXPECT_EQ(part.full_attributes(i), whole.full_attributes(next));
      EXPECT_EQ(part.layer_shape(i).output, whole.layer_shape(next).output);
      ASSERT_EQ(cut.inputs.size(), own.inputs.size());
      for (std::size_t k = 0; k < own.inputs.size(); ++k) {
        EXPECT_EQ(joined.origin(cut.inputs[k]), own.inputs[k]);
      }
    }
  }
  EXPECT_EQ(next, whole.layers().size());
  EXPECT_EQ(joined.owned(), whole.producers().size() + whole.layers().size());
}

// Every boundary has two equal ends, points forward, is used, and is the only way of its tensor
// there.
void check_boundaries(const HarmonicGraph& whole, const Parts& parts, const Joined& joined) {
  std::set<std::pair<std::string, std::size_t>> crossings;
  EXPECT_EQ(joined.senders().size(), joined.receivers().size());
  const std::set<std::string> learning = learning_layers(whole);
  for (const auto& [name, receiver] : joined.receivers()) {
    ASSERT_TRUE(joined.senders().contains(name)) << name;
    EXPECT_TRUE(is_boundary_name(name)) << name;
    const std::size_t sender = joined.senders().at(name);
    const ConsumerNode& sent = joined.sending_end(name);
    const ProducerNode& received = joined.receiving_end(name);
    EXPECT_LT(sender, receiver) << name;
    EXPECT_EQ(sent.activation, "");
    EXPECT_EQ(parts[sender].spec(sent.input), parts[receiver].spec(name));
    EXPECT_EQ(sent.shape, received.shape);
    EXPECT_EQ(sent.extents, received.extents);
    EXPECT_EQ(received.extents, whole.named_extents(joined.origin(name))) << name;
    EXPECT_EQ(sent.gradient_slots, received.gradient_slots) << name;
    EXPECT_TRUE(crossings.emplace(joined.origin(name), receiver).second) << name;

    std::uint32_t slots = 0;
    for (const std::string& use : joined.uses({receiver, name})) {
      const bool tap = use.find("<-") != std::string::npos;
      slots += tap || learning.contains(use.substr(0, use.find(':'))) ? 1 : 0;
    }
    const bool raw = whole.producer_index(joined.origin(name)).has_value();
    EXPECT_EQ(received.gradient_slots, raw ? 0 : slots) << name;
  }
}

// A boundary that nothing in its part uses would be waste.
void check_every_boundary_is_used(const Parts& parts, const Joined& joined) {
  for (const HarmonicGraph& part : parts) {
    std::set<std::string> used;
    for (const LayerNode& layer : part.layers())
      used.insert(layer.inputs.begin(), layer.inputs.end());
    for (const TrainingTap& tap : part.taps()) used.insert({tap.prediction, tap.target});
    for (const ProducerNode& node : part.producers()) {
      EXPECT_TRUE(used.contains(node.name) || !joined.is_boundary(node.name)) << node.name;
    }
  }
}

void check_consumers_and_taps(const HarmonicGraph& whole, const Parts& parts,
                              const Joined& joined) {
  std::multiset<std::string> expected;
  std::multiset<std::string> found;
  for (const TrainingTap& tap : whole.taps()) {
    expected.insert(format("{}:{}<-{}*{}", tap.loss, tap.prediction, tap.target, tap.weight));
  }
  for (const ConsumerNode& node : whole.consumers()) {
    expected.insert(format("{}={}({})", node.name, node.activation, node.input));
  }
  for (const HarmonicGraph& part : parts) {
    for (const TrainingTap& tap : part.taps()) {
      found.insert(format("{}:{}<-{}*{}", tap.loss, joined.origin(tap.prediction),
                          joined.origin(tap.target), tap.weight));
    }
    for (const ConsumerNode& node : part.consumers()) {
      if (!joined.is_own_consumer(node.name)) continue;
      EXPECT_EQ(node.input, joined.origin(node.input)) << "a consumer lives with its input";
      found.insert(format("{}={}({})", node.name, node.activation, node.input));
    }
  }
  EXPECT_EQ(found, expected);
}

// Walking the parts gives the uncut graph's order of gradients, for every tensor.
void check_gradient_order(const HarmonicGraph& whole, const Parts& parts, const Joined& joined) {
  const Parts uncut = {whole};
  const Joined single(whole, uncut);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (const LayerNode& layer : parts[p].layers()) {
      EXPECT_EQ(joined.uses({p, layer.name}), single.uses({0, layer.name})) << layer.name;
    }
    for (const ProducerNode& node : parts[p].producers()) {
      if (joined.is_boundary(node.name)) continue;
      EXPECT_EQ(joined.uses({p, node.name}), single.uses({0, node.name})) << node.name;
    }
  }
}

void check_cut(const HarmonicGraph& whole, const Parts& parts) {
  const Joined joined(whole, parts);
  check_layers(whole, parts, joined);
  check_boundaries(whole, parts, joined);
  if (testing::Test::HasFatalFailure()) return;
  check_every_boundary_is_used(parts, joined);
  check_consumers_and_taps(whole, parts, joined);
  check_gradient_order(whole, parts, joined);
}

RandomGraphOptions options_for(std::uint64_t seed) {
  RandomGraphOptions options;
  options.groups = seed % 3 == 0;
  options.axes = seed % 5 == 0;
  return options;
}

TEST(RandomGraphTest, KeepsItsPromises) {
  std::size_t two_taps = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const HarmonicGraph graph = random_graph(seed, options_for(seed));
    EXPECT_EQ(graph, random_graph(seed, options_for(seed)));
    EXPECT_GE(graph.layers().size(), 6u);
    EXPECT_LE(graph.layers().size(), 20u);
    std::map<std::string, std::size_t> users;
    std::set<std::string> types;
    for (const LayerNode& layer : graph.layers()) {
      types.insert(layer.type);
      const std::set<std::string> inputs(layer.inputs.begin(), layer.inputs.end());
      for (const std::string& input : inputs) ++users[input];
    }
    EXPECT_GE(users["stem"], 3u) << seed;
    EXPECT_GE(users["input"], 2u) << seed;
    EXPECT_EQ(graph.layers().front().name, "stem");
    EXPECT_EQ(graph.layers().back().inputs.back(), "stem") << "the skip spans every cut";
    EXPECT_EQ(types.contains("batch_norm"), seed % 2 == 1 && graph.axes().empty());
    EXPECT_EQ(graph.axes().empty(), seed % 5 != 0);
    EXPECT_EQ(types.contains("dropout"), seed % 2 == 1);
    EXPECT_FALSE(graph.taps().empty());
    EXPECT_FALSE(graph.consumers().empty());
    two_taps += graph.taps().size() == 2 ? 1 : 0;
  }
  EXPECT_GT(two_taps, kSeeds / 3);
}

TEST(PartitionPropertyTest, HoldsForEveryPartCount) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const HarmonicGraph graph = random_graph(seed, options_for(seed));
    for (std::size_t count = 1; count <= graph.layers().size(); ++count) {
      SCOPED_TRACE(format("seed {}, {} parts", seed, count));
      const Parts parts = partition_graph(graph, count);
      ASSERT_EQ(parts.size(), count);
      check_cut(graph, parts);
      if (HasFailure()) return;
    }
  }
}

// Cutting and giving an axis another value change places: the parts are those of the other graph.
TEST(PartitionPropertyTest, PartsFollowTheirAxes) {
  for (std::uint64_t seed = 0; seed < kSeeds; seed += 5) {
    const HarmonicGraph graph = random_graph(seed, options_for(seed));
    const std::vector<std::size_t> cut = {0, 2, 4};
    const Parts at_once = cut_graph(graph.with_axes({{"T", 5}}), cut);
    const Parts parts = cut_graph(graph, cut);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      EXPECT_EQ(parts[p].with_axes({{"T", 5}}), at_once[p]) << "seed " << seed << ", part " << p;
    }
  }
}

// first_layers of a random cut.
std::vector<std::size_t> random_cut(const HarmonicGraph& graph, Random& random) {
  std::vector<std::size_t> first_layers = {0};
  for (std::size_t i = 1; i < graph.layers().size(); ++i) {
    if (random.below(3) == 0) first_layers.push_back(i);
  }
  return first_layers;
}

TEST(PartitionPropertyTest, HoldsForAnyCutAndForPartsThatAreCutAgainAndAgain) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const HarmonicGraph graph = random_graph(seed, options_for(seed));
    Random random(seed, "cuts");
    Parts parts = {graph};
    for (int round = 0; round < 3; ++round) {
      SCOPED_TRACE(format("seed {}, round {}", seed, round));
      Parts pieces;
      for (const HarmonicGraph& part : parts) {
        for (HarmonicGraph& piece : cut_graph(part, random_cut(part, random))) {
          pieces.push_back(std::move(piece));
        }
      }
      parts = std::move(pieces);
      check_cut(graph, parts);
      if (HasFailure()) return;
    }
  }
}

// Cut between all units, the tensors on their way past each cut are those that crossing_elements
// counts.
void check_crossing(const HarmonicGraph& graph) {
  const std::vector<std::int64_t> crossing = crossing_elements(graph);
  const Parts parts = partition_graph(graph, crossing.size());
  const Joined joined(graph, parts);
  for (std::size_t cut = 0; cut + 1 < parts.size(); ++cut) {
    std::set<std::string> alive;
    for (const auto& [name, receiver] : joined.receivers()) {
      if (joined.senders().at(name) <= cut && cut < receiver) alive.insert(joined.origin(name));
    }
    std::int64_t elements = 0;
    for (const std::string& tensor : alive) elements += element_count(graph.spec(tensor).shape);
    EXPECT_EQ(elements, crossing[cut]) << graph.name() << ", cut " << cut;
  }
}

TEST(PartitionPropertyTest, WhatCrossesIsWhatTheUnitsSay) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    check_crossing(random_graph(seed, options_for(seed)));
  }
  for (const std::string& name : zoo_names()) check_crossing(zoo_graph(name));
}

TEST(PartitionPropertyTest, HoldsForTheZoo) {
  for (const std::string& name : zoo_names()) {
    const HarmonicGraph graph = zoo_graph(name);
    for (const std::size_t count : {std::size_t{2}, std::size_t{3}, graph.layers().size()}) {
      SCOPED_TRACE(format("{}, {} parts", name, count));
      check_cut(graph, partition_graph(graph, count));
    }
  }
}

TEST(PartitionPropertyTest, PartsSurviveTheBlob) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const HarmonicGraph graph = random_graph(seed, options_for(seed));
    for (const HarmonicGraph& part : partition_graph(graph, 1 + seed % graph.layers().size())) {
      EXPECT_EQ(decode_graph(encode_graph(part)), part) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_graph
