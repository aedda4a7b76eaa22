#include <harmonics/graph/axes.h>

#include <algorithm>

#include <harmonics/base/error.h>

namespace harmonics::inline in_graph {

std::string extent_text(const NamedExtent& extent) {
  std::string text = extent.factor == 1 ? extent.axis : format("{}*{}", extent.factor, extent.axis);
  if (extent.offset > 0) text += format("+{}", extent.offset);
  if (extent.offset < 0) text += format("{}", extent.offset);
  return text;
}

std::string named_shape_text(const Shape& shape, const NamedExtents& extents) {
  if (extents.empty()) return shape_text(shape);
  std::string text;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto named = std::ranges::find(extents, i, &NamedExtent::position);
    text += format("{}{}", i == 0 ? "" : ", ",
                   named == extents.end() ? format("{}", shape[i]) : extent_text(*named));
  }
  return format("{{{}}}", text);
}

Shape shape_at(Shape shape, const NamedExtents& extents, const AxisValues& values) {
  for (const NamedExtent& extent : extents) {
    const auto value = values.find(extent.axis);
    if (value != values.end()) shape.at(extent.position) = extent.at(value->second);
  }
  return shape;
}

void AxisBinding::bind(std::string_view owner, const Shape& shape, const Shape& declared,
                       const NamedExtents& extents) {
  const auto refuse = [&](const std::string& why) {
    fail(ErrorCode::kInvalidArgument, "{} takes batches of {}, samples of {} came{}", owner,
         named_shape_text(declared, extents), shape_text(shape), why);
  };
  if (shape.size() != declared.size()) refuse("");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto named = std::ranges::find(extents, i, &NamedExtent::position);
    if (named == extents.end()) {
      if (shape[i] != declared[i]) refuse("");
      continue;
    }
    const auto axis = std::ranges::find(axes_, named->axis, &AxisNode::name);
    const std::int64_t rest = shape[i] - named->offset;
    const std::int64_t value = rest / named->factor;
    if (axis == axes_.end() || rest % named->factor != 0 || value < 1 || value > axis->ceiling) {
      refuse(format(": axis {} is 1 to {}", named->axis, axis == axes_.end() ? 0 : axis->ceiling));
    }
    const auto [known, fresh] = values_.emplace(named->axis, value);
    if (fresh) givers_.emplace(named->axis, owner);
    if (known->second != value) {
      refuse(format(": that is {0} = {1}, but {2} has {0} = {3}; all tensors of a batch must agree",
                    named->axis, value, givers_.at(named->axis), known->second));
    }
  }
}

}  // namespace harmonics::inline in_graph
