#include <harmonics/graph/blob.h>

#include <harmonics/base/error.h>

namespace harmonics::inline in_graph {
namespace {

constexpr std::uint32_t kMagic = 0x46524748;  // "HGRF" in little-endian order
// An empty text or list takes four bytes: the least that a node of each kind can take.
constexpr std::size_t kTextBytes = 4;
constexpr std::size_t kProducerBytes = kTextBytes + 6;
constexpr std::size_t kLayerBytes = 6 * kTextBytes + 1;
constexpr std::size_t kConsumerBytes = 3 * kTextBytes + 5;
constexpr std::size_t kTapBytes = 3 * kTextBytes + 8;
constexpr std::size_t kAttributeBytes = kTextBytes + 5;
constexpr std::size_t kMaxAttributes = 1'000;
constexpr std::size_t kAxisBytes = kTextBytes + 16;
constexpr std::size_t kExtentBytes = kTextBytes + 20;

void write_shape(ByteWriter& out, const Shape& shape) {
  out.number(static_cast<std::uint32_t>(shape.size()));
  for (const std::int64_t axis : shape) out.number(axis);
}

void write_shape(ByteWriter& out, const std::optional<Shape>& shape) {
  out.number(static_cast<std::uint8_t>(shape.has_value()));
  if (shape) write_shape(out, *shape);
}

void write_count(ByteWriter& out, std::size_t count) {
  out.number(static_cast<std::uint32_t>(count));
}

// The variant's index is the tag in the blob.
void write_attribute(ByteWriter& out, const Attribute& value) {
  out.number(static_cast<std::uint8_t>(value.index()));
  if (const auto* integer = std::get_if<std::int64_t>(&value)) out.number(*integer);
  if (const auto* real = std::get_if<double>(&value)) out.number(*real);
  if (const auto* text = std::get_if<std::string>(&value)) out.text(*text);
  if (const auto* list = std::get_if<Shape>(&value)) write_shape(out, *list);
}

void write_extents(ByteWriter& out, const NamedExtents& extents) {
  write_count(out, extents.size());
  for (const NamedExtent& extent : extents) {
    out.number(extent.position);
    out.text(extent.axis);
    out.number(extent.factor);
    out.number(extent.offset);
  }
}

void write_axes(ByteWriter& out, const std::vector<AxisNode>& axes) {
  write_count(out, axes.size());
  for (const AxisNode& axis : axes) {
    out.text(axis.name);
    out.number(axis.ceiling);
    out.number(axis.value);
  }
}

void write_layer(ByteWriter& out, const LayerNode& node) {
  out.text(node.name);
  out.text(node.type);
  out.text(node.activation);
  out.text(node.group);
  out.number(static_cast<std::uint8_t>(node.ratio.has_value()));
  if (node.ratio) {
    out.number(node.ratio->numerator);
    out.number(node.ratio->denominator);
    out.text(node.ratio->of);
  }
  write_count(out, node.inputs.size());
  for (const std::string& input : node.inputs) out.text(input);
  write_count(out, node.attributes.size());
  for (const auto& [name, value] : node.attributes) {
    out.text(name);
    write_attribute(out, value);
  }
}

class Decoder {
 public:
  explicit Decoder(ByteSpan bytes) : in_(bytes, "graph blob") {}

  HarmonicGraph run() {
    header();
    GraphBuilder builder(name());
    if (has_axes_) {
      std::size_t axes = 0;
      each(kMaxGraphAxes, kAxisBytes, [&] {
        builder.add(axis());
        ++axes;
      });
      if (axes == 0) in_.broken("a graph of this version has named axes");
    }
    each(kMaxGraphNodes, kProducerBytes, [&] { builder.add(producer()); });
    each(kMaxGraphNodes, kLayerBytes, [&] { builder.add(layer()); });
    each(kMaxGraphNodes, kConsumerBytes, [&] { builder.add(consumer()); });
    each(kMaxGraphNodes, kTapBytes, [&] { builder.add(tap()); });
    if (in_.left() != 0) in_.broken(format("{} bytes follow the end of the graph", in_.left()));
    return builder.build();
  }

 private:
  void header() {
    if (in_.number<std::uint32_t>() != kMagic) in_.broken("these bytes are no graph");
    const auto version = in_.number<std::uint16_t>();
    has_axes_ = version == kGraphBlobAxesVersion;
    if (version != kGraphBlobVersion && !has_axes_) {
      fail(ErrorCode::kUnimplemented,
           "this graph blob has version {}, this program reads version {} and {}: use the same "
           "release of Harmonics at both ends",
           version, kGraphBlobVersion, kGraphBlobAxesVersion);
    }
  }

  template <typename Item>
  void each(std::size_t limit, std::size_t item_bytes, const Item& item) {
    const std::uint32_t count = in_.count(limit, item_bytes);
    for (std::uint32_t i = 0; i < count; ++i) item();
  }

  std::string name() { return in_.text(kMaxBoundaryNameLength); }

  bool flag() {
    const auto value = in_.number<std::uint8_t>();
    if (value > 1) in_.broken(format("a flag is 0 or 1, not {}", value));
    return value == 1;
  }

  Shape shape() {
    Shape axes;
    each(kMaxShapeAxes, sizeof(std::int64_t), [&] { axes.push_back(in_.number<std::int64_t>()); });
    return axes;
  }

  std::optional<Shape> optional_shape() {
    if (!flag()) return std::nullopt;
    return shape();
  }

  AxisNode axis() {
    AxisNode node;
    node.name = name();
    node.ceiling = in_.number<std::int64_t>();
    node.value = in_.number<std::int64_t>();
    return node;
  }

  NamedExtents extents() {
    NamedExtents all;
    if (!has_axes_) return all;
    each(kMaxShapeAxes, kExtentBytes, [&] {
      NamedExtent extent;
      extent.position = in_.number<std::uint32_t>();
      extent.axis = name();
      extent.factor = in_.number<std::int64_t>();
      extent.offset = in_.number<std::int64_t>();
      all.push_back(std::move(extent));
    });
    return all;
  }

  ProducerNode producer() {
    ProducerNode node{name(), optional_shape()};
    const auto dtype = in_.number<std::uint8_t>();
    if (dtype >= kDTypeCount) in_.broken(format("{} is no element type", dtype));
    node.dtype = static_cast<DType>(dtype);
    node.gradient_slots = in_.number<std::uint32_t>();
    node.extents = extents();
    return node;
  }

  Attribute attribute() {
    const auto tag = in_.number<std::uint8_t>();
    switch (tag) {
      case 0: return in_.number<std::int64_t>();
      case 1: return in_.number<double>();
      case 2: return in_.text(kMaxAttributeTextLength);
      case 3: return shape();
      default: in_.broken(format("{} is no kind of attribute", tag));
    }
  }

  LayerNode layer() {
    LayerNode node;
    node.name = name();
    node.type = name();
    node.activation = name();
    node.group = name();
    if (flag()) {
      Ratio ratio;
      ratio.numerator = in_.number<std::int64_t>();
      ratio.denominator = in_.number<std::int64_t>();
      ratio.of = name();
      node.ratio = std::move(ratio);
    }
    each(kMaxLayerInputs, kTextBytes, [&] { node.inputs.push_back(name()); });
    each(kMaxAttributes, kAttributeBytes, [&] {
      std::string key = name();
      if (!node.attributes.emplace(key, attribute()).second) {
        in_.broken(format("the attribute '{}' of layer '{}' occurs twice", key, node.name));
      }
    });
    return node;
  }

  ConsumerNode consumer() {
    ConsumerNode node;
    node.name = name();
    node.input = name();
    node.activation = name();
    node.shape = optional_shape();
    node.gradient_slots = in_.number<std::uint32_t>();
    node.extents = extents();
    return node;
  }

  TrainingTap tap() {
    TrainingTap made;
    made.loss = name();
    made.prediction = name();
    made.target = name();
    made.weight = in_.number<double>();
    return made;
  }

  ByteReader in_;
  bool has_axes_ = false;
};

}  // namespace

Bytes encode_graph(const HarmonicGraph& graph) {
  ByteWriter out;
  out.number(kMagic);
  const bool has_axes = !graph.axes().empty();
  out.number(has_axes ? kGraphBlobAxesVersion : kGraphBlobVersion);
  out.text(graph.name());
  if (has_axes) write_axes(out, graph.axes());
  write_count(out, graph.producers().size());
  for (const ProducerNode& node : graph.producers()) {
    out.text(node.name);
    write_shape(out, node.shape);
    out.number(static_cast<std::uint8_t>(node.dtype));
    out.number(node.gradient_slots);
    if (has_axes) write_extents(out, node.extents);
  }
  write_count(out, graph.layers().size());
  for (const LayerNode& node : graph.layers()) write_layer(out, node);
  write_count(out, graph.consumers().size());
  for (const ConsumerNode& node : graph.consumers()) {
    out.text(node.name);
    out.text(node.input);
    out.text(node.activation);
    write_shape(out, node.shape);
    out.number(node.gradient_slots);
    if (has_axes) write_extents(out, node.extents);
  }
  write_count(out, graph.taps().size());
  for (const TrainingTap& tap : graph.taps()) {
    out.text(tap.loss);
    out.text(tap.prediction);
    out.text(tap.target);
    out.number(tap.weight);
  }
  return out.take();
}

HarmonicGraph decode_graph(ByteSpan bytes) { return Decoder(bytes).run(); }

}  // namespace harmonics::inline in_graph
