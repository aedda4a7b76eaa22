#include <ATen/ATen.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "kernel_casts.h"
#include "kernels.h"

namespace harmonics::inline in_runtime {
namespace {

LayerForward make_transpose(const LayerQuery& q) {
  std::vector<std::int64_t> axes = {0};
  for (const std::int64_t axis : q.list("axes")) axes.push_back(axis + 1);
  return [axes](const LayerCall& call) { return call.inputs[0].permute(axes); };
}

LayerForward make_slice(const LayerQuery& q) {
  return [axis = batch_axis(q.integer("axis")), begin = q.integer("begin"),
          given = q.integer_or("count", 0), step = q.integer("step")](const LayerCall& call) {
    const at::Tensor& x = call.inputs[0];
    const std::int64_t extent = x.size(axis), first = begin < 0 ? begin + extent : begin;
    const std::int64_t pace = std::abs(step);
    const std::int64_t count =
        given > 0 ? given : (step > 0 ? extent - 1 - first : first) / pace + 1;
    const std::int64_t last = first + (count - 1) * step;
    if (step > 0) return x.slice(axis, first, last + 1, pace);
    return x.slice(axis, last, first + 1, pace).flip({axis});
  };
}

// Each sample by its own indices.
at::Tensor gathered(const at::Tensor& x, std::int64_t axis, const at::Tensor& indices) {
  const std::int64_t batch = x.size(0), extent = x.size(axis);
  const at::Tensor moved = x.movedim(axis, 1);
  const at::Tensor rows = moved.reshape({batch, extent, -1});
  const at::Tensor wanted = indices.to(at::kLong).reshape({batch, -1});
  const at::Tensor from_start = at::where(wanted.lt(0), wanted + extent, wanted);
  const at::Tensor taken =
      rows.gather(1, from_start.unsqueeze(-1).expand({batch, from_start.size(1), rows.size(2)}));
  std::vector<std::int64_t> sizes = indices.sizes().vec();
  for (std::int64_t i = 2; i < moved.dim(); ++i) sizes.push_back(moved.size(i));
  // The axes of the indices stand where the axis was.
  std::vector<std::int64_t> from(static_cast<std::size_t>(indices.dim() - 1)), to(from.size());
  std::iota(from.begin(), from.end(), 1);
  std::iota(to.begin(), to.end(), axis);
  return taken.reshape(sizes).movedim(from, to);
}

LayerForward make_gather(const LayerQuery& q) {
  const std::int64_t axis = batch_axis(q.integer("axis"));
  if (!q.has("indices")) {
    return [axis](const LayerCall& call) {
      const at::Tensor& x = call.inputs[0];
      return gathered(x, axis < 0 ? axis + x.dim() : axis, call.inputs[1]);
    };
  }
  return [axis, indices = q.list("indices")](const LayerCall& call) {
    const at::Tensor& x = call.inputs[0];
    std::vector<std::int64_t> from_start = indices;
    for (std::int64_t& index : from_start) index += index < 0 ? x.size(axis) : 0;
    return x.index_select(axis, at::tensor(from_start, at::kLong).to(x.device()));
  };
}

// What each row of a padded axis repeats: the row as far inside as it is outside, the last one, or
// that of the other end.
at::Tensor repeated_rows(std::int64_t extent, std::int64_t before, std::int64_t after,
                         const std::string& mode) {
  const bool reflect = mode == "reflect";
  std::vector<std::int64_t> rows;
  for (std::int64_t place = -before; place < extent + after; ++place) {
    std::int64_t row = mode == "wrap" ? (place % extent + extent) % extent : place;
    while (reflect && extent > 1 && (row < 0 || row >= extent))
      row = row < 0 ? -row : 2 * (extent - 1) - row;
    rows.push_back(std::clamp<std::int64_t>(row, 0, extent - 1));
  }
  return at::tensor(rows, at::kLong);
}

LayerForward make_pad(const LayerQuery& q) {
  const Shape before = q.list("before"), after = q.list("after");
  const std::string& mode = q.text("mode");
  if (mode == "constant") {
    std::vector<std::int64_t> sides;  // the last axis first
    for (std::size_t axis = before.size(); axis-- > 0;) {
      sides.insert(sides.end(), {before[axis], after[axis]});
    }
    return [sides, value = q.number("value")](const LayerCall& call) {
      return at::constant_pad_nd(call.inputs[0], sides, value);
    };
  }
  return [before, after, mode](const LayerCall& call) {
    at::Tensor x = call.inputs[0];
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i] == 0 && after[i] == 0) continue;
      const auto axis = static_cast<std::int64_t>(i) + 1;
      const at::Tensor rows = repeated_rows(x.size(axis), before[i], after[i], mode);
      x = x.index_select(axis, rows.to(x.device()));
    }
    return x;
  };
}

}  // namespace

LayerKernels move_kernels() {
  return {{"transpose", make_transpose},
          {"slice", make_slice},
          {"gather", make_gather},
          {"pad", make_pad}};
}

}  // namespace harmonics::inline in_runtime
