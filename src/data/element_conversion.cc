#include "element_conversion.h"

namespace harmonics::inline in_data {
namespace {

template <typename Real>
std::optional<std::size_t> first_nan_of(const std::byte* elements, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    Real value{};
    std::memcpy(&value, elements + i * sizeof(Real), sizeof(Real));
    if (std::isnan(value)) return i;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> first_nan(DType dtype, const std::byte* elements, std::size_t count) {
  if (dtype == DType::kFloat32) return first_nan_of<float>(elements, count);
  if (dtype == DType::kFloat64) return first_nan_of<double>(elements, count);
  return std::nullopt;
}

}  // namespace harmonics::inline in_data
