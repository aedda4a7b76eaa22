#include <harmonics/serve/model_card.h>

#include <algorithm>
#include <span>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

namespace harmonics::inline in_serve {
namespace {

// "[rows, 3, 224, 224]", with the names of axes.
std::string wanted_shape(const TensorCard& card) {
  std::string text = "[rows";
  for (std::size_t i = 0; i < card.sample.shape.size(); ++i) {
    const auto named = std::ranges::find(card.extents, i, &NamedExtent::position);
    text += named == card.extents.end() ? format(", {}", card.sample.shape[i])
                                        : format(", {}", named->axis);
  }
  return text + "]";
}

[[noreturn]] void wrong_shape(const TensorCard& card, const Tensor& given) {
  fail(ErrorCode::kInvalidArgument, "input '{}' takes the shape {}, the request has {}", card.name,
       wanted_shape(card), shape_text(given.shape()));
}

// The length of the axis that one extent stands for.
std::int64_t axis_value(const ModelCard& card, const TensorCard& input, const NamedExtent& extent,
                        const Tensor& given) {
  const auto axis = std::ranges::find(card.axes, extent.axis, &AxisNode::name);
  const std::int64_t over = given.shape()[extent.position + 1] - extent.offset;
  const std::int64_t value = over / extent.factor;
  if (axis == card.axes.end() || over % extent.factor != 0) wrong_shape(input, given);
  if (value < 1 || value > axis->ceiling) {
    fail(ErrorCode::kInvalidArgument, "input '{}': axis {} goes from 1 to {}, the request has {}",
         input.name, extent.axis, axis->ceiling, value);
  }
  return value;
}

void check_shape(const ModelCard& card, const TensorCard& input, const Tensor& given,
                 AxisValues& axes) {
  if (given.shape().size() != input.sample.shape.size() + 1) wrong_shape(input, given);
  for (std::size_t i = 0; i < input.sample.shape.size(); ++i) {
    const auto named = std::ranges::find(input.extents, i, &NamedExtent::position);
    if (named == input.extents.end()) {
      if (given.shape()[i + 1] != input.sample.shape[i]) wrong_shape(input, given);
      continue;
    }
    const std::int64_t value = axis_value(card, input, *named, given);
    const auto [known, is_new] = axes.emplace(named->axis, value);
    if (!is_new && known->second != value) {
      fail(ErrorCode::kInvalidArgument,
           "input '{}': axis {} has the length {} here and {} in another input", input.name,
           named->axis, value, known->second);
    }
  }
}

template <typename T>
void check_ids(const TensorCard& input, std::span<const T> ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<std::int64_t>(ids[i]);
    if (id >= 0 && id < input.id_limit) continue;
    fail(ErrorCode::kInvalidArgument, "input '{}': number {} is {}, it must be from 0 to {}",
         input.name, i, id, input.id_limit - 1);
  }
}

void check_numbers(const TensorCard& input, const Tensor& given) {
  if (input.id_limit == 0) return;
  switch (given.dtype()) {
    case DType::kInt64: return check_ids(input, given.values<std::int64_t>());
    case DType::kInt32: return check_ids(input, given.values<std::int32_t>());
    case DType::kInt8: return check_ids(input, given.values<std::int8_t>());
    case DType::kUInt8: return check_ids(input, given.values<std::uint8_t>());
    default: return;
  }
}

void check_names(const ModelCard& card, const InferenceRequest& request) {
  for (const TensorCard& input : card.inputs) {
    if (request.inputs.contains(input.name)) continue;
    fail(ErrorCode::kInvalidArgument, "the request lacks input '{}' of model '{}', which takes: {}",
         input.name, card.name, listed(card.inputs, &TensorCard::name));
  }
  for (const auto& [name, tensor] : request.inputs) {
    if (std::ranges::find(card.inputs, name, &TensorCard::name) != card.inputs.end()) continue;
    fail(ErrorCode::kInvalidArgument, "model '{}' has no input '{}'; it takes: {}", card.name, name,
         listed(card.inputs, &TensorCard::name));
  }
  for (const std::string& name : request.outputs) {
    if (std::ranges::find(card.outputs, name, &TensorCard::name) != card.outputs.end()) continue;
    fail(ErrorCode::kInvalidArgument, "model '{}' has no output '{}'; it gives: {}", card.name,
         name, listed(card.outputs, &TensorCard::name));
  }
}

}  // namespace

std::int64_t row_bytes(const ModelCard& card) {
  std::int64_t sum = 0;
  for (const TensorCard& input : card.inputs) sum += byte_count(input.sample);
  return sum;
}

std::int64_t check_request(const ModelCard& card, const InferenceRequest& request) {
  if (request.id.size() > kMaxRequestId) {
    fail(ErrorCode::kInvalidArgument, "the id of a request has at most {} bytes, this one has {}",
         kMaxRequestId, request.id.size());
  }
  check_names(card, request);
  AxisValues axes;
  std::int64_t rows = 0;
  for (const TensorCard& input : card.inputs) {
    const Tensor& given = request.inputs.find(input.name)->second;
    if (given.dtype() != input.sample.dtype) {
      fail(ErrorCode::kInvalidArgument, "input '{}' takes {}, the request has {}", input.name,
           dtype_name(input.sample.dtype), dtype_name(given.dtype()));
    }
    check_shape(card, input, given, axes);
    const std::int64_t came = given.shape()[0];
    if (came < 1 || came > card.batch_rows) {
      fail(ErrorCode::kInvalidArgument,
           "input '{}': a request has 1 to {} rows, this one has {}; send more in several requests",
           input.name, card.batch_rows, came);
    }
    if (rows != 0 && came != rows) {
      fail(ErrorCode::kInvalidArgument, "input '{}' has {} rows, '{}' has {}",
           card.inputs.front().name, rows, input.name, came);
    }
    rows = came;
    check_numbers(input, given);
  }
  return rows;
}

}  // namespace harmonics::inline in_serve
