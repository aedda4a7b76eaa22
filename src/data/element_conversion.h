// Numbers of a file, of either byte order, into those of a tensor.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include <harmonics/tensor/dtype.h>

namespace harmonics::inline in_data {

/// Reads `count` elements from `in`, each times `scale` where the result is a float; false when one
/// does not fit.
using Convert = bool (*)(const char* in, std::size_t count, double scale, std::byte* out);

template <std::size_t kBytes>
using UnsignedOf = std::conditional_t<
    kBytes == 1, std::uint8_t,
    std::conditional_t<kBytes == 2, std::uint16_t,
                       std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>>>;

template <typename T, std::endian kOrder>
T element_at(const char* at) {
  UnsignedOf<sizeof(T)> value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    const std::size_t next = kOrder == std::endian::big ? i : sizeof(T) - 1 - i;
    value = static_cast<decltype(value)>((std::uint64_t{value} << 8) |
                                         static_cast<unsigned char>(at[next]));
  }
  return std::bit_cast<T>(value);
}

template <typename From, typename To, std::endian kOrder>
bool convert(const char* in, std::size_t count, double scale, std::byte* out) {
  for (std::size_t i = 0; i < count; ++i, in += sizeof(From), out += sizeof(To)) {
    const From value = element_at<From, kOrder>(in);
    To element{};
    if constexpr (std::is_floating_point_v<To>) {
      element = scale == 1.0 ? static_cast<To>(value)
                             : static_cast<To>(static_cast<double>(value) * scale);
    } else if constexpr (std::is_floating_point_v<From>) {
      // The bounds are powers of two, exact as floats; NaN fails both comparisons.
      constexpr auto kPastEnd = 2 * static_cast<From>(std::numeric_limits<To>::max() / 2 + 1);
      if (!(value >= static_cast<From>(std::numeric_limits<To>::min()) && value < kPastEnd) ||
          value != std::trunc(value)) {
        return false;
      }
      element = static_cast<To>(value);
    } else {
      element = static_cast<To>(value);
      if (static_cast<std::int64_t>(element) != static_cast<std::int64_t>(value)) return false;
    }
    std::memcpy(out, &element, sizeof(To));
  }
  return true;
}

/// The conversion into elements of `dtype`, or null where there is none.
template <typename From, std::endian kOrder>
Convert convert_to(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return convert<From, float, kOrder>;
    case DType::kFloat64: return convert<From, double, kOrder>;
    case DType::kInt64: return convert<From, std::int64_t, kOrder>;
    case DType::kInt32: return convert<From, std::int32_t, kOrder>;
    case DType::kInt8: return convert<From, std::int8_t, kOrder>;
    case DType::kUInt8: return convert<From, std::uint8_t, kOrder>;
    case DType::kBFloat16:
    case DType::kFloat16:
    case DType::kBool: break;
  }
  return nullptr;
}

/// The place of the first NaN among `count` elements of a float dtype; nothing where there is none
/// or the dtype has none.
[[nodiscard]] std::optional<std::size_t> first_nan(DType dtype, const std::byte* elements,
                                                   std::size_t count);

}  // namespace harmonics::inline in_data
