// What a graph knows of its named axes: checks, values, and which extents follow which axis.
#include <algorithm>
#include <set>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/nearest_word.h>
#include <harmonics/graph/graph.h>

namespace harmonics::inline in_graph {
namespace {

[[noreturn]] void refuse_axis(const std::string& owner, const std::string& axis,
                              const std::vector<AxisNode>& axes) {
  std::vector<std::string> known;
  for (const AxisNode& each : axes) known.push_back(each.name);
  fail(ErrorCode::kNotFound, "{} names the axis '{}', which is not declared; there are: {}{}",
       owner, axis, listed(known), suggestion(axis, known));
}

// One tensor of the graph under three values of one axis.
struct Followed {
  std::string tensor;
  const AxisNode& axis;
  std::int64_t near = 0;
  std::int64_t far = 0;
};

[[noreturn]] void refuse_extent(const Followed& what, std::size_t position) {
  fail(ErrorCode::kInvalidArgument,
       "'{}': extent {} of its shape is no whole multiple of axis {} plus a number; keep the axis "
       "apart from others, and out of strides and products",
       what.tensor, position, what.axis.name);
}

// The extents of a tensor that follow the axis, from its shapes at the ceiling and two more values.
void add_extents(const Followed& what, const Shape& most, const Shape& near, const Shape& far,
                 NamedExtents& into) {
  if (most == near && most == far) return;
  if (most.size() != near.size() || most.size() != far.size()) refuse_extent(what, 0);
  for (std::size_t i = 0; i < most.size(); ++i) {
    if (most[i] == near[i] && most[i] == far[i]) continue;
    NamedExtent extent{static_cast<std::uint32_t>(i), what.axis.name, 0, 0};
    extent.factor = (most[i] - near[i]) / (what.axis.ceiling - what.near);
    extent.offset = most[i] - extent.factor * what.axis.ceiling;
    const bool taken = std::ranges::find(into, i, &NamedExtent::position) != into.end();
    if (taken || extent.factor < 1 || extent.at(what.near) != near[i] ||
        extent.at(what.far) != far[i]) {
      refuse_extent(what, i);
    }
    into.push_back(std::move(extent));
  }
  std::ranges::sort(into, {}, &NamedExtent::position);
}

void check_parameters(const LayerNode& layer, const AxisNode& axis, const LayerShape& most,
                      const LayerShape& other) {
  const auto shapes = [](const LayerShape& shape) {
    std::vector<Shape> all;
    for (const ParameterSpec& each : shape.parameters) all.push_back(each.shape);
    return all;
  };
  if (shapes(most) == shapes(other)) return;
  fail(ErrorCode::kInvalidArgument,
       "layer '{}' ({}) owns parameters that depend on axis {}: give it a size of its own{}",
       layer.name, layer.type, axis.name, layer.type == "position" ? ", use position(rows=…)" : "");
}

}  // namespace

GraphBuilder& GraphBuilder::axis(std::string name, std::int64_t ceiling) {
  return add(AxisNode{std::move(name), ceiling, ceiling});
}

GraphBuilder& GraphBuilder::add(AxisNode node) {
  graph_.axes_.push_back(std::move(node));
  return *this;
}

GraphBuilder& GraphBuilder::named_producer(std::string name, const std::vector<Extent>& shape,
                                           DType dtype) {
  ProducerNode node{std::move(name), Shape{}, dtype};
  for (const Extent& item : shape) {
    if (!item.axis.empty()) {
      node.extents.push_back(
          {static_cast<std::uint32_t>(node.shape->size()), item.axis, item.factor, item.offset});
    }
    node.shape->push_back(item.offset);
  }
  return add(std::move(node));
}

// Refuses axes that make no sense, and gives every named extent its number.
void HarmonicGraph::check_axes() {
  if (axes_.size() > kMaxGraphAxes) {
    fail(ErrorCode::kInvalidArgument, "graph '{}' has {} axes; at most {} are possible", name_,
         axes_.size(), kMaxGraphAxes);
  }
  std::set<std::string_view> unused;
  for (const AxisNode& axis : axes_) {
    if (!is_user_name(axis.name) || !unused.insert(axis.name).second) {
      fail(ErrorCode::kInvalidArgument, "the axis '{}' is declared twice or is no valid name",
           axis.name);
    }
    if (axis.ceiling < 2 || axis.ceiling > kMaxAxisCeiling || axis.value < 1 ||
        axis.value > axis.ceiling) {
      fail(ErrorCode::kInvalidArgument,
           "axis '{}' has the value {} and the ceiling {}: a ceiling is 2 to {}, a value 1 to the "
           "ceiling",
           axis.name, axis.value, axis.ceiling, kMaxAxisCeiling);
    }
  }
  for (const ProducerNode& node : producers_) {
    check_extents(format("producer '{}'", node.name), node.shape, node.extents);
    for (const NamedExtent& extent : node.extents) unused.erase(extent.axis);
  }
  for (const ConsumerNode& node : consumers_) {
    check_extents(format("consumer '{}'", node.name), node.shape, node.extents);
  }
  if (!unused.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "no producer of graph '{}' follows the axis '{}': use it in a shape, or leave it out",
         name_, *unused.begin());
  }
  set_axis_values({});
}

void HarmonicGraph::check_extents(const std::string& owner, const std::optional<Shape>& shape,
                                  const NamedExtents& extents) const {
  std::int64_t last = -1;
  for (const NamedExtent& extent : extents) {
    if (std::ranges::find(axes_, extent.axis, &AxisNode::name) == axes_.end()) {
      refuse_axis(owner, extent.axis, axes_);
    }
    if (!shape || extent.position >= shape->size() || extent.position <= last ||
        extent.factor < 1 || extent.factor > kMaxAxisCeiling || extent.offset > kMaxAxisCeiling ||
        extent.offset < -kMaxAxisCeiling) {
      fail(ErrorCode::kInvalidArgument,
           "{}: '{}' is no extent of its shape: a factor is 1 to {}, and each place is named once",
           owner, extent_text(extent), kMaxAxisCeiling);
    }
    last = extent.position;
  }
}

void HarmonicGraph::set_axis_values(const AxisValues& values) {
  AxisValues all;
  for (AxisNode& axis : axes_) {
    if (const auto given = values.find(axis.name); given != values.end()) {
      axis.value = given->second;
    }
    all[axis.name] = axis.value;
  }
  const auto work_out = [&](auto& node) {
    if (node.shape) node.shape = shape_at(std::move(*node.shape), node.extents, all);
  };
  for (ProducerNode& node : producers_) work_out(node);
  for (ConsumerNode& node : consumers_) work_out(node);
}

// A sorted graph with every shape at these values; a mistake says at which.
HarmonicGraph HarmonicGraph::worked_out_at(const AxisValues& values) const {
  HarmonicGraph graph = *this;
  graph.set_axis_values(values);
  try {
    graph.infer_shapes();
    graph.check_consumers_and_taps();
  } catch (const Error& error) {
    std::string at;
    for (const auto& [name, value] : values) {
      at += format("{}{} = {}", at.empty() ? "" : ", ", name, value);
    }
    throw Error(error.code(), format("{} (with {})", error.what(), at));
  }
  return graph;
}

// Finds out which extents follow which axis by working the shapes out at other values.
void HarmonicGraph::follow_axes() {
  extents_.clear();
  if (axes_.empty() || !resolved()) return;
  AxisValues ceilings;
  for (const AxisNode& axis : axes_) ceilings[axis.name] = axis.ceiling;
  const HarmonicGraph reference = worked_out_at(ceilings);
  for (const AxisNode& axis : axes_) follow_axis(reference, axis);
}

void HarmonicGraph::follow_axis(const HarmonicGraph& reference, const AxisNode& axis) {
  // A stride shows between neighbours or over a long way.
  const std::int64_t close = axis.ceiling - 1;
  const std::int64_t half = std::max<std::int64_t>(1, axis.ceiling / 2);
  const HarmonicGraph near = reference.worked_out_at({{axis.name, close}});
  const HarmonicGraph far = reference.worked_out_at({{axis.name, half}});
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    check_parameters(layers_[i], axis, reference.shapes_[i], near.shapes_[i]);
    check_parameters(layers_[i], axis, reference.shapes_[i], far.shapes_[i]);
  }
  for (const auto& [tensor, spec] : reference.specs_) {
    NamedExtents& own = extents_[tensor];
    add_extents({tensor, axis, close, half}, spec.shape, near.specs_.at(tensor).shape,
                far.specs_.at(tensor).shape, own);
  }
}

void HarmonicGraph::check_axis_values(const AxisValues& values) const {
  for (const auto& [name, value] : values) {
    const auto axis = std::ranges::find(axes_, name, &AxisNode::name);
    if (axis == axes_.end()) refuse_axis(format("graph '{}': a value", name_), name, axes_);
    if (value < 1 || value > axis->ceiling) {
      fail(ErrorCode::kInvalidArgument, "axis {} of graph '{}' is 1 to {}, not {}", name, name_,
           axis->ceiling, value);
    }
  }
}

HarmonicGraph HarmonicGraph::with_axes(const AxisValues& values) const {
  if (values.empty()) return *this;
  check_axis_values(values);
  GraphBuilder builder(name_);
  builder.graph_ = *this;
  builder.graph_.set_axis_values(values);
  return builder.build();
}

HarmonicGraph HarmonicGraph::with_fixed_axes(const AxisValues& values) const {
  if (values.empty()) return *this;
  check_axis_values(values);
  GraphBuilder builder(name_);
  builder.graph_ = *this;
  builder.graph_.set_axis_values(values);
  const auto is_fixed = [&](const std::string& name) { return values.contains(name); };
  const auto fix = [&](auto& nodes) {
    for (auto& node : nodes) {
      std::erase_if(node.extents, [&](const NamedExtent& each) { return is_fixed(each.axis); });
    }
  };
  fix(builder.graph_.producers_);
  fix(builder.graph_.consumers_);
  std::erase_if(builder.graph_.axes_, [&](const AxisNode& each) { return is_fixed(each.name); });
  return builder.build();
}

std::optional<Shape> sample_view(const ProducerNode& producer, const Shape& sample) {
  const Shape& own = *producer.shape;
  if (producer.extents.empty()) {
    if (element_count(own) != element_count(sample)) return std::nullopt;
    return own;
  }
  if (sample.size() != own.size()) return std::nullopt;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto named = std::ranges::find(producer.extents, i, &NamedExtent::position);
    if (named == producer.extents.end() && sample[i] != own[i]) return std::nullopt;
  }
  return sample;
}

const NamedExtents& HarmonicGraph::named_extents(std::string_view tensor) const {
  static const NamedExtents kFixed;
  (void)spec(tensor);  // an unknown name is an error
  const auto found = extents_.find(tensor);
  return found == extents_.end() ? kFixed : found->second;
}

std::string HarmonicGraph::shape_text_of(std::string_view tensor) const {
  return named_shape_text(spec(tensor).shape, named_extents(tensor));
}

}  // namespace harmonics::inline in_graph
