// Layers that take, move or repeat parts of a tensor.
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "builtin.h"
#include "builtin_attributes.h"

namespace harmonics::inline in_graph {
namespace {

LayerShape infer_transpose(const LayerQuery& q) {
  const Shape& in = q.inputs[0].shape;
  const Shape axes = q.list("axes");
  Shape sorted = axes, all(in.size());
  std::iota(all.begin(), all.end(), 0);
  std::ranges::sort(sorted);
  if (sorted != all) {
    q.refuse(
        format("'axes' must name each of the {} axes once, not {}", in.size(), shape_text(axes)));
  }
  LayerShape result{{{}, q.inputs[0].dtype}, {}, 0};
  for (const std::int64_t axis : axes) result.output.shape.push_back(in[axis]);
  return result;
}

LayerShape infer_slice(const LayerQuery& q) {
  LayerShape result{q.inputs[0], {}, 0};
  std::int64_t& extent = result.output.shape[sample_axis(q, "axis", q.integer("axis"))];
  const std::int64_t begin = q.integer("begin") + (q.integer("begin") < 0 ? extent : 0);
  const std::int64_t step = q.integer("step");
  if (begin < 0 || begin >= extent) q.refuse(format("begin={} is outside", q.integer("begin")));
  if (step == 0 || step < -kLargestWindow || step > kLargestWindow) {
    q.refuse(format("step={} goes nowhere", step));
  }
  const std::int64_t most = (step > 0 ? extent - 1 - begin : begin) / std::abs(step) + 1;
  const std::int64_t count = q.integer_or("count", most);
  if (count < 1 || count > most) {
    q.refuse(format("count={} must be 1 to {} from {} on", count, most, begin));
  }
  extent = count;
  return result;
}

// Rows by number: numbers of the sample's own, or the same for all.
LayerShape infer_gather(const LayerQuery& q) {
  const std::size_t axis = sample_axis(q, "axis", q.integer("axis"));
  const Shape& in = q.inputs[0].shape;
  if (q.has("indices") == (q.inputs.size() == 2)) {
    q.refuse("takes indices as a second input or as 'indices'");
  }
  Shape taken;
  if (q.has("indices")) {
    const Shape indices = q.list("indices");
    for (const std::int64_t index : indices) {
      if (index < -in[axis] || index >= in[axis]) {
        q.refuse(format("index {} is outside an axis of {}", index, in[axis]));
      }
    }
    taken = {static_cast<std::int64_t>(indices.size())};
  } else {
    if (is_floating(q.inputs[1].dtype) || q.inputs[1].dtype == DType::kBool) {
      q.refuse("its indices must be whole numbers");
    }
    taken = q.inputs[1].shape;
  }
  LayerShape result{q.inputs[0], {}, 0};
  Shape& out = result.output.shape;
  const auto at = out.begin() + static_cast<std::ptrdiff_t>(axis);
  out.insert(out.erase(at), taken.begin(), taken.end());
  return result;
}

LayerShape infer_pad(const LayerQuery& q) {
  LayerShape result{q.inputs[0], {}, 0};
  Shape& shape = result.output.shape;
  const Shape before = q.list("before"), after = q.list("after");
  if (before.size() != shape.size() || after.size() != shape.size()) {
    q.refuse(format("'before' and 'after' must have a number for each of {} axes", shape.size()));
  }
  const std::string& mode = q.text("mode");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") {
    q.refuse(format("'mode' must be constant, reflect, edge or wrap, not {}", mode));
  }
  static_cast<void>(q.number("value"));
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::int64_t most = mode == "reflect" ? shape[axis] - 1 : kLargestWindow;
    if (std::min(before[axis], after[axis]) < 0 || std::max(before[axis], after[axis]) > most) {
      q.refuse(format("axis {} can be padded by 0 to {}", axis, most));
    }
    shape[axis] += before[axis] + after[axis];
  }
  return result;
}

void need_one_of(const LayerQuery& q, const char* name, std::string_view all) {
  const std::string padded = format(" {} ", all);
  if (padded.find(format(" {} ", q.text(name))) == std::string::npos) {
    q.refuse(format("'{}' must be one of: {}; not {}", name, all, q.text(name)));
  }
}

LayerShape infer_resize(const LayerQuery& q) {
  need_floating(q);
  need_rank(q, 3, "{channels, height, width}");
  need_one_of(q, "mode", "nearest linear cubic");
  need_one_of(q, "places",
              "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric");
  need_one_of(q, "rounding", "round_prefer_floor round_prefer_ceil floor ceil");
  for (const char* name : {"scale_y", "scale_x"}) {
    if (q.has(name) && !(q.number(name) > 1e-6 && q.number(name) < 1e6))
      q.refuse(format("'{}' must be a factor above 0", name));
  }
  for (const char* name : {"antialias", "inside_only"}) static_cast<void>(q.integer_or(name, 0));
  static_cast<void>(q.number_or("cubic", 0));
  const Shape size = pair_of(q, "size", 1);
  LayerShape result{{{q.inputs[0].shape[0], size[0], size[1]}, q.inputs[0].dtype}, {}, 0};
  const double taps = q.text("mode") == "nearest" ? 0 : q.text("mode") == "linear" ? 8 : 32;
  result.flops = taps * elements(result.output.shape);
  return result;
}

}  // namespace

std::vector<LayerType> move_layer_types() {
  const std::int64_t zero = 0;
  return {
      {"transpose", {required("axes")}, 1, 1, infer_transpose},
      {"slice",
       {with_default("axis", zero), with_default("begin", zero), optional("count"),
        with_default("step", std::int64_t{1})},
       1,
       1,
       infer_slice},
      {"gather", {with_default("axis", zero), optional("indices")}, 1, 2, infer_gather},
      {"pad",
       {required("before"), required("after"), with_default("mode", std::string("constant")),
        with_default("value", 0.0)},
       1,
       1,
       infer_pad},
      {"resize",
       {required("size"), with_default("mode", std::string("nearest")),
        with_default("places", std::string("half_pixel")),
        with_default("rounding", std::string("round_prefer_floor")), optional("scale_y"),
        optional("scale_x"), optional("cubic"), optional("inside_only"), optional("antialias")},
       1,
       1,
       infer_resize},
  };
}

}  // namespace harmonics::inline in_graph
