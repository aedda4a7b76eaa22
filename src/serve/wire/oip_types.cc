#include "oip_types.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <harmonics/base/error.h>

namespace harmonics::inline in_serve {
namespace {

// The most axes of a tensor in a request.
constexpr std::size_t kMaxRequestAxes = 16;

struct NamedDatatype {
  std::string_view name;
  DType dtype;
};
constexpr std::array<NamedDatatype, kDTypeCount> kDatatypes = {{{"FP32", DType::kFloat32},
                                                                {"FP64", DType::kFloat64},
                                                                {"BF16", DType::kBFloat16},
                                                                {"FP16", DType::kFloat16},
                                                                {"INT64", DType::kInt64},
                                                                {"INT32", DType::kInt32},
                                                                {"INT8", DType::kInt8},
                                                                {"UINT8", DType::kUInt8},
                                                                {"BOOL", DType::kBool}}};

}  // namespace

const char* server_version() { return HARMONICS_VERSION; }

std::string_view datatype_name(DType dtype) {
  return std::ranges::find(kDatatypes, dtype, &NamedDatatype::dtype)->name;
}

std::optional<DType> datatype_from_name(std::string_view name) {
  const auto found = std::ranges::find(kDatatypes, name, &NamedDatatype::name);
  if (found == kDatatypes.end()) return std::nullopt;
  return found->dtype;
}

DType request_datatype(std::string_view name, std::string_view input) {
  const std::optional<DType> dtype = datatype_from_name(name);
  if (!dtype) {
    fail(ErrorCode::kInvalidArgument, "input '{}': datatype '{}' is not known here", input, name);
  }
  return *dtype;
}

Shape advertised_shape(const TensorCard& card) {
  Shape shape = card.sample.shape;
  for (const NamedExtent& extent : card.extents) shape[extent.position] = -1;
  shape.insert(shape.begin(), -1);
  return shape;
}

void check_request_shape(const Shape& shape, std::string_view input) {
  if (shape.empty() || shape.size() > kMaxRequestAxes) {
    fail(ErrorCode::kInvalidArgument, "input '{}': a shape has 1 to {} axes, this one has {}",
         input, kMaxRequestAxes, shape.size());
  }
  static_cast<void>(element_count(shape));  // neither negative nor too large
}

Tensor tensor_from_bytes(std::string_view input, TensorSpec spec, ByteSpan bytes) {
  const std::int64_t wanted = byte_count(spec);
  if (static_cast<std::uint64_t>(wanted) != bytes.size()) {
    fail(ErrorCode::kInvalidArgument, "input '{}' of {} takes {} bytes, the request has {}", input,
         spec_text(spec), wanted, bytes.size());
  }
  Tensor tensor = Tensor::empty(std::move(spec.shape), spec.dtype);
  const std::span<std::byte> to = tensor.mutable_bytes();
  if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
  if (tensor.dtype() == DType::kBool) {  // whatever is not zero is true
    for (std::byte& one : to) one = std::byte{one != std::byte{0}};
  }
  return tensor;
}

void check_model(const ModelCard& card, std::string_view name, std::string_view version) {
  if (name != card.name) {
    fail(ErrorCode::kNotFound, "there is no model '{}' here; there is '{}'", name, card.name);
  }
  if (!version.empty() && version != kModelVersion) {
    fail(ErrorCode::kNotFound, "model '{}' has no version '{}'; it has '{}'", name, version,
         kModelVersion);
  }
}

}  // namespace harmonics::inline in_serve
