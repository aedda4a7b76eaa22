// What a .harp text says, after every `repeat` is written out and before names are looked up.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <harmonics/graph/harp.h>

namespace harmonics::inline in_graph {

/// A name where it is used; offsets are bytes from the start of the text.
struct HarpName {
  std::string text;
  std::size_t offset = 0;
  /// Written as `consumer NAME` in a flow.
  bool says_consumer = false;
};

struct HarpAxis {
  AxisNode node;
  std::size_t offset = 0;
};

struct HarpProducer {
  ProducerNode node;
  std::size_t offset = 0;
  /// `1/1 OTHER`; empty without.
  HarpName aligned_with = {};
};

/// `node.inputs` and `node.activation` come from the flows.
struct HarpLayer {
  LayerNode node;
  std::size_t offset = 0;
  std::size_t ratio_offset = 0;
};

struct HarpConsumer {
  ConsumerNode node;
  std::size_t offset = 0;
};

/// One arrow. Forward: sources -(function)-> target. Tap: sources[0] <-(function * weight)- target.
struct HarpArrow {
  std::vector<HarpName> sources;
  HarpName target;
  /// Activation or loss; empty for a plain forward arrow.
  HarpName function;
  bool is_tap = false;
  double weight = 1.0;
};

struct HarpTree {
  std::string name = "graph";
  std::vector<HarpAxis> axes;
  /// Where shapes name an axis.
  std::vector<HarpName> axis_uses;
  std::vector<HarpProducer> producers;
  std::vector<HarpLayer> layers;
  std::vector<HarpConsumer> consumers;
  std::vector<HarpArrow> arrows;
  Settings data;
  Settings train;
  Settings weights;
};

}  // namespace harmonics::inline in_graph
