#include "inputs.h"

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/graph/partition.h>

#include "program.h"

namespace harmonics::inline in_runtime {
namespace {

void check_input(const ProducerNode& node, const Tensor& given, AxisBinding& binding) {
  const Shape& shape = given.shape();
  if (!node.extents.empty() && !shape.empty()) {
    binding.bind(format("producer '{}'", node.name), Shape(shape.begin() + 1, shape.end()),
                 *node.shape, node.extents);
  } else if (shape.empty() ||
             !std::equal(shape.begin() + 1, shape.end(), node.shape->begin(), node.shape->end())) {
    fail(ErrorCode::kInvalidArgument,
         "producer '{}' takes batches of {}, a tensor of shape {} came", node.name,
         shape_text(*node.shape), shape_text(shape));
  }
  if (is_floating(node.dtype) != is_floating(given.dtype())) {
    fail(ErrorCode::kInvalidArgument, "producer '{}' is declared as {}, a tensor of {} came",
         node.name, dtype_name(node.dtype), dtype_name(given.dtype()));
  }
}

template <typename Id>
void check_ids_of(const IdRange& range, const ProducerNode& node, const Tensor& given) {
  const std::span<const Id> ids = given.values<Id>();
  const auto is_good = [&](Id id) {
    const auto number = static_cast<std::int64_t>(id);
    if (number >= 0) return number < range.count;
    return range.left_out == LeftOut::kBelowZero ||
           (range.left_out == LeftOut::kMark && number == kLeftOutMark);
  };
  const auto bad = std::ranges::find_if_not(ids, is_good);
  if (bad == ids.end()) return;
  const std::int64_t rows = given.shape()[0], each = given.size() / rows;
  fail(ErrorCode::kInvalidArgument,
       "{} takes ids from 0 to {}, producer '{}' brought {} in row {} of {}", range.reader,
       range.count - 1, node.name, static_cast<std::int64_t>(*bad), (bad - ids.begin()) / each,
       rows);
}

}  // namespace

void check_ids(const IdRange& range, const ProducerNode& node, const Tensor& given) {
  if (given.device().kind != DeviceKind::kCpu) return;
  switch (given.dtype()) {
    case DType::kInt64: return check_ids_of<std::int64_t>(range, node, given);
    case DType::kInt32: return check_ids_of<std::int32_t>(range, node, given);
    case DType::kInt8: return check_ids_of<std::int8_t>(range, node, given);
    case DType::kUInt8: return check_ids_of<std::uint8_t>(range, node, given);
    default: return;
  }
}

TakenInputs take_inputs(const HarmonicGraph& graph, const Program& program,
                        const NamedTensors& inputs, bool with_targets) {
  std::vector<Tensor> taken(graph.producers().size());
  AxisBinding binding(graph.axes());
  std::int64_t rows = -1;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const ProducerNode& node = graph.producers()[i];
    if (!with_targets && !program.needed_for_inference[i]) continue;
    const auto given = inputs.find(node.name);
    if (given == inputs.end()) {
      fail(ErrorCode::kFailedPrecondition, "producer '{}' of graph '{}' has no data: bind it",
           node.name, graph.name());
    }
    check_input(node, given->second, binding);
    taken[i] = given->second;
    if (program.brings_weight[i]) continue;  // one for all rows
    if (rows >= 0 && taken[i].shape()[0] != rows) {
      fail(ErrorCode::kInvalidArgument, "producer '{}' brings a batch of {}, the others bring {}",
           node.name, taken[i].shape()[0], rows);
    }
    rows = taken[i].shape()[0];
  }
  for (const IdRange& range : program.id_ranges) {
    if (!taken[range.producer].defined()) continue;
    check_ids(range, graph.producers()[range.producer], taken[range.producer]);
  }
  return {std::move(taken), binding.values()};
}

bool needs_widening(const ProducerNode& node, const Tensor& given) {
  return given.dtype() != node.dtype && !is_boundary_name(node.name) && is_floating(node.dtype);
}

bool computes_in_float32(const HarmonicGraph& graph) {
  const auto fits = [](DType dtype) { return !is_floating(dtype) || dtype == DType::kFloat32; };
  for (const ProducerNode& node : graph.producers()) {
    if (!fits(node.dtype)) return false;
  }
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    if (!fits(graph.layer_shape(i).output.dtype)) return false;
  }
  return true;
}

const Tensor& fitting_value(const NamedTensors& values, const std::string& name,
                            const Shape& shape) {
  const auto found = values.find(name);
  if (found == values.end()) fail(ErrorCode::kNotFound, "there is no value for '{}'", name);
  if (found->second.shape() != shape) {
    fail(ErrorCode::kInvalidArgument, "'{}' has shape {} here, the value that came has {}", name,
         shape_text(shape), shape_text(found->second.shape()));
  }
  return found->second;
}

}  // namespace harmonics::inline in_runtime
