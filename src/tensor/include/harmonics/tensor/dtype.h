// Element types and shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace harmonics::inline in_tensor {

/// The numbers are part of the binary formats: never renumber.
enum class DType : std::uint8_t {
  kFloat32 = 0,
  kFloat64 = 1,
  kBFloat16 = 2,
  kFloat16 = 3,
  kInt64 = 4,
  kInt32 = 5,
  kInt8 = 6,
  kUInt8 = 7,
  kBool = 8,
};
inline constexpr int kDTypeCount = 9;

[[nodiscard]] std::size_t dtype_size(DType dtype);
/// "float32", "bfloat16", …
[[nodiscard]] std::string_view dtype_name(DType dtype);
/// The dtype of that name, or nothing.
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name);
[[nodiscard]] bool is_floating(DType dtype);

template <typename T>
struct DTypeOf;  // the dtype of a C++ type; bfloat16 and float16 have none and travel as raw bits
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::kInt8;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::kUInt8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};

/// Axis lengths, outermost first; empty for a scalar.
using Shape = std::vector<std::int64_t>;

/// The largest tensor: its size in bytes fits 64 bits with room to spare, whatever the dtype.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 56;

/// Number of elements. Throws `Error` for a negative axis or a product above kMaxElements.
[[nodiscard]] std::int64_t element_count(const Shape& shape);
/// "{3, 224, 224}"; "{}" for a scalar.
[[nodiscard]] std::string shape_text(const Shape& shape);

/// Shape and dtype of a tensor without its data.
struct TensorSpec {
  Shape shape;
  DType dtype = DType::kFloat32;
  bool operator==(const TensorSpec&) const = default;
};

/// What such a tensor takes in memory. Throws like element_count.
[[nodiscard]] std::int64_t byte_count(const TensorSpec& spec);
/// "float32 {3, 224, 224}"
[[nodiscard]] std::string spec_text(const TensorSpec& spec);

}  // namespace harmonics::inline in_tensor
