#include <harmonics/tensor/dtype.h>

#include <array>

#include <harmonics/base/error.h>

namespace harmonics::inline in_tensor {
namespace {

struct DTypeFacts {
  std::string_view name;
  std::size_t size;
  bool floating;
};

constexpr std::array<DTypeFacts, kDTypeCount> kFacts = {{
    {"float32", 4, true},
    {"float64", 8, true},
    {"bfloat16", 2, true},
    {"float16", 2, true},
    {"int64", 8, false},
    {"int32", 4, false},
    {"int8", 1, false},
    {"uint8", 1, false},
    {"bool", 1, false},
}};

const DTypeFacts& facts(DType dtype) { return kFacts.at(static_cast<std::size_t>(dtype)); }

}  // namespace

std::size_t dtype_size(DType dtype) { return facts(dtype).size; }
std::string_view dtype_name(DType dtype) { return facts(dtype).name; }
bool is_floating(DType dtype) { return facts(dtype).floating; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kFacts.size(); ++i) {
    if (kFacts[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t axis : shape) {
    if (axis < 0) {
      fail(ErrorCode::kInvalidArgument, "shape {} has a negative axis", shape_text(shape));
    }
    if (axis != 0 && count > kMaxElements / axis) {
      fail(ErrorCode::kInvalidArgument, "shape {} has more than {} elements", shape_text(shape),
           kMaxElements);
    }
    count *= axis;
  }
  return count;
}

std::string shape_text(const Shape& shape) {
  std::string text = "{";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "}";
}

std::int64_t byte_count(const TensorSpec& spec) {
  return element_count(spec.shape) * static_cast<std::int64_t>(dtype_size(spec.dtype));
}

std::string spec_text(const TensorSpec& spec) {
  return format("{} {}", dtype_name(spec.dtype), shape_text(spec.shape));
}

}  // namespace harmonics::inline in_tensor
