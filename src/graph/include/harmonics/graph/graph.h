// HarmonicGraph: producers, layers, consumers and training taps, checked and in order.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/graph/axes.h>
#include <harmonics/graph/layer_type.h>
#include <harmonics/tensor/dtype.h>

namespace harmonics::inline in_graph {

/// Ceilings of a graph; a larger one is refused by the builder and by every decoder.
inline constexpr std::size_t kMaxGraphNodes = 100'000;
inline constexpr std::size_t kMaxLayerInputs = 1'024;
inline constexpr std::size_t kMaxGraphEdges = 1'000'000;
inline constexpr std::size_t kMaxNameLength = 200;
inline constexpr std::size_t kMaxBoundaryNameLength = 240;
inline constexpr std::size_t kMaxAttributeTextLength = 1'000;
inline constexpr std::size_t kMaxShapeAxes = 64;
/// Numbers of one tensor (a sample, or a parameter): keeps every size computed from them in range.
inline constexpr std::int64_t kMaxTensorElements = std::int64_t{1} << 40;

/// A tensor that enters the graph.
struct ProducerNode {
  std::string name;
  /// Without the batch axis. Unset: learnt from the data that is bound
  /// (HarmonicGraph::resolved_with).
  std::optional<Shape> shape = std::nullopt;
  DType dtype = DType::kFloat32;
  /// Boundaries only: how many gradients travel back, one per use in this part; 0 means none.
  std::uint32_t gradient_slots = 0;
  /// Which extents of the shape follow a named axis; build() works their numbers out.
  NamedExtents extents = {};
  bool operator==(const ProducerNode&) const = default;
};

/// A width relative to another tensor: `1/2 input` is half of input's last axis.
struct Ratio {
  std::int64_t numerator = 1;
  std::int64_t denominator = 1;
  std::string of;
  bool operator==(const Ratio&) const = default;
};

struct LayerNode {
  std::string name;
  std::string type = "linear";
  Attributes attributes = {};
  /// Only for linear without `out`: its width. With neither, a linear layer is as wide as its
  /// input, or as its target when it is the prediction of a tap whose target has its own width.
  std::optional<Ratio> ratio = std::nullopt;
  /// Producers or layers, in the order in which the layer takes them.
  std::vector<std::string> inputs = {};
  /// Applied to the layer's output; empty for none.
  std::string activation = {};
  /// Layers of one group are never cut apart while there are enough groups to cut between.
  std::string group = {};
  bool operator==(const LayerNode&) const = default;
};

/// A tensor that leaves the graph: activation(input).
struct ConsumerNode {
  std::string name;
  std::string input;
  std::string activation = {};
  /// When given, the input's shape must equal it.
  std::optional<Shape> shape = std::nullopt;
  /// Boundaries only: how many gradients come back, one per use in the receiving part.
  std::uint32_t gradient_slots = 0;
  /// As those of a producer.
  NamedExtents extents = {};
  bool operator==(const ConsumerNode&) const = default;
};

/// `prediction <-(loss)- target`: makes a graph learn. Targets are constants: no gradient flows
/// there.
struct TrainingTap {
  std::string loss;
  std::string prediction;
  std::string target;
  double weight = 1.0;
  bool operator==(const TrainingTap&) const = default;
};

/// An immutable, validated graph; a value that can be copied. Made by GraphBuilder, parse_harp,
/// decode_graph or a zoo function. Layers stand in topological order ("graph order"), which decides
/// the order of gradient sums.
///
/// A graph with named axes holds shapes for one value of each, the ceiling unless told otherwise
/// (with_axes). A batch may have any other value within the ceiling. Parameters never depend on an
/// axis, and every extent that does is factor * axis + offset of one axis (named_extents): build()
/// works the shapes out at two more values and refuses a graph for which this does not hold.
class HarmonicGraph {
 public:
  HarmonicGraph() = default;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<AxisNode>& axes() const { return axes_; }
  [[nodiscard]] const std::vector<ProducerNode>& producers() const { return producers_; }
  [[nodiscard]] const std::vector<LayerNode>& layers() const { return layers_; }
  [[nodiscard]] const std::vector<ConsumerNode>& consumers() const { return consumers_; }
  [[nodiscard]] const std::vector<TrainingTap>& taps() const { return taps_; }
  /// Things worth telling the user that are no errors.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  /// True when every shape is known. partition_graph and CycleRuntime need that.
  [[nodiscard]] bool resolved() const { return unresolved_.empty(); }
  /// Producers whose shape is not known yet.
  [[nodiscard]] const std::vector<std::string>& unresolved() const { return unresolved_; }
  /// The same graph with these producers' shapes and dtypes filled in (known ones are checked; a
  /// named axis may have any value within its ceiling).
  [[nodiscard]] HarmonicGraph resolved_with(const std::map<std::string, TensorSpec>& specs) const;

  /// The same graph with its shapes worked out at these values; other axes keep theirs. An unknown
  /// axis, or a value outside 1..ceiling, is an Error.
  [[nodiscard]] HarmonicGraph with_axes(const AxisValues& values) const;
  /// The same graph without these axes: what followed them has fixed shapes, those of the values.
  [[nodiscard]] HarmonicGraph with_fixed_axes(const AxisValues& values) const;
  /// The extents of a producer or of a layer's output that follow an axis; none for a fixed shape.
  /// Like spec(), for resolved graphs.
  [[nodiscard]] const NamedExtents& named_extents(std::string_view tensor) const;
  /// The shape of spec(tensor) with the names of its axes: {T, 384}.
  [[nodiscard]] std::string shape_text_of(std::string_view tensor) const;

  /// Shape and dtype of a producer or of a layer's output, without the batch axis. The graph must
  /// be resolved; an unknown name is an Error that lists near names.
  [[nodiscard]] const TensorSpec& spec(std::string_view tensor) const;
  /// Shape, parameters and cost of layer number `index`; the graph must be resolved. Parameters of
  /// its activation are included.
  [[nodiscard]] const LayerShape& layer_shape(std::size_t index) const { return shapes_.at(index); }
  /// Index in layers() or nothing.
  [[nodiscard]] std::optional<std::size_t> layer_index(std::string_view name) const;
  [[nodiscard]] std::optional<std::size_t> producer_index(std::string_view name) const;
  /// The layer's attributes complete with defaults and, for linear, with `out` worked out.
  [[nodiscard]] const Attributes& full_attributes(std::size_t index) const {
    return full_attributes_.at(index);
  }

  /// Trainable numbers; a tied parameter counts once.
  [[nodiscard]] std::int64_t parameter_count() const;

  /// Same nodes (derived data follows from them).
  bool operator==(const HarmonicGraph& other) const {
    return name_ == other.name_ && axes_ == other.axes_ && producers_ == other.producers_ &&
           layers_ == other.layers_ && consumers_ == other.consumers_ && taps_ == other.taps_;
  }

 private:
  friend class GraphBuilder;
  void check_limits() const;
  // Named axes (graph_axes.cc).
  void check_axes();
  void check_extents(const std::string& owner, const std::optional<Shape>& shape,
                     const NamedExtents& extents) const;
  void set_axis_values(const AxisValues& values);
  void check_axis_values(const AxisValues& values) const;
  void follow_axes();
  // Frozen and tied parameters (graph_shared.cc).
  void share_parameters();
  void tie_parameter(std::size_t index);
  void give_weight(std::size_t index, int place);
  void follow_axis(const HarmonicGraph& reference, const AxisNode& axis);
  [[nodiscard]] HarmonicGraph worked_out_at(const AxisValues& values) const;

  void check_names() const;
  void check_references() const;
  void check_layer(const LayerNode& layer) const;
  void sort_layers();
  void infer_shapes();
  void complete_linear(std::size_t index, Attributes& attributes);
  void check_consumers_and_taps() const;

  std::string name_ = "graph";
  std::vector<AxisNode> axes_;
  std::vector<ProducerNode> producers_;
  std::vector<LayerNode> layers_;
  std::vector<ConsumerNode> consumers_;
  std::vector<TrainingTap> taps_;
  // Derived from the above by GraphBuilder::build.
  std::vector<std::string> warnings_;
  std::vector<std::string> unresolved_;
  std::map<std::string, TensorSpec, std::less<>> specs_;
  std::map<std::string, NamedExtents, std::less<>> extents_;
  std::vector<LayerShape> shapes_;
  std::vector<Attributes> full_attributes_;
  std::map<std::string, std::size_t, std::less<>> layer_indices_;
};

/// Assembles a graph. Nodes may come in any order; `build` checks everything at once and throws an
/// Error that names the node (and both shapes where shapes disagree).
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name = "graph") { graph_.name_ = std::move(name); }

  /// A named axis of at most `ceiling`. Some producer must follow it.
  GraphBuilder& axis(std::string name, std::int64_t ceiling);
  GraphBuilder& producer(std::string name, std::optional<Shape> shape = std::nullopt,
                         DType dtype = DType::kFloat32);
  /// A producer whose shape may follow named axes: named_producer("ids", {"T"}, DType::kInt64),
  /// named_producer("x", {Extent("T", 2, 1), 384}).
  GraphBuilder& named_producer(std::string name, const std::vector<Extent>& shape,
                               DType dtype = DType::kFloat32);
  GraphBuilder& layer(std::string name, std::string type, Attributes attributes,
                      std::vector<std::string> inputs, std::string activation = {});
  GraphBuilder& consumer(std::string name, std::string input, std::string activation = {});
  GraphBuilder& tap(std::string loss, std::string prediction, std::string target,
                    double weight = 1.0);
  /// Layers added from now on belong to this group; empty ends the group.
  GraphBuilder& group(std::string name);

  GraphBuilder& add(AxisNode node);
  GraphBuilder& add(ProducerNode node);
  GraphBuilder& add(LayerNode node);
  GraphBuilder& add(ConsumerNode node);
  GraphBuilder& add(TrainingTap tap);

  [[nodiscard]] HarmonicGraph build() const;

 private:
  friend class HarmonicGraph;
  HarmonicGraph graph_;
  std::string group_;
};

/// True for a layer with `trainable=false`.
[[nodiscard]] bool is_frozen(const LayerNode& layer);
/// The full name under which a layer's parameter is kept: "<layer>.<name>", or that of its owner.
[[nodiscard]] std::string parameter_name(const LayerNode& layer, const ParameterSpec& parameter);

/// The shape under which a producer takes samples of the shape `sample`: its own where there are as
/// many numbers; with named axes the sample's, where all fixed extents agree. Nothing otherwise.
[[nodiscard]] std::optional<Shape> sample_view(const ProducerNode& producer, const Shape& sample);

/// True for a name that a user may give: a letter or _, then letters, digits, _ and dots.
[[nodiscard]] bool is_user_name(std::string_view name);
/// True for the name of a boundary, "<layer>@<part>", of at most kMaxBoundaryNameLength.
[[nodiscard]] bool is_boundary_name(std::string_view name);

}  // namespace harmonics::inline in_graph
