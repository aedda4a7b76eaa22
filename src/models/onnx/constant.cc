#include "constant.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <harmonics/base/error.h>

#include "unpack.h"

namespace harmonics::inline in_models {
namespace {

template <typename T>
T element(ByteSpan bytes, std::size_t index) {
  T value{};
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

double real_at(ByteSpan bytes, DType dtype, std::size_t index) {
  switch (dtype) {
    case DType::kFloat32: return element<float>(bytes, index);
    case DType::kFloat64: return element<double>(bytes, index);
    case DType::kFloat16: return half_value(element<std::uint16_t>(bytes, index));
    case DType::kBFloat16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(element<std::uint16_t>(bytes, index))
                                  << 16);
    case DType::kInt64: return static_cast<double>(element<std::int64_t>(bytes, index));
    case DType::kInt32: return element<std::int32_t>(bytes, index);
    case DType::kInt8: return element<std::int8_t>(bytes, index);
    case DType::kUInt8:
    case DType::kBool: return element<std::uint8_t>(bytes, index);
  }
  return 0;
}

std::int64_t whole(double value) {
  constexpr double kLimit = 9.2e18;
  if (std::isnan(value)) return 0;
  return static_cast<std::int64_t>(std::clamp(value, -kLimit, kLimit));
}

template <typename T, typename From>
void put(std::span<std::byte> to, std::size_t index, From value) {
  const T typed = static_cast<T>(value);
  std::memcpy(to.data() + index * sizeof(T), &typed, sizeof(T));
}

// To the nearest of 16 bits, to the even one of two that are as near.
std::uint16_t bfloat_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

std::uint16_t half_bits(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::abs(value);
  if (std::isnan(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  // Steps of the last bit: 2^-24 below the smallest normal number, else 2^-10 of the power below.
  int power = 0;
  std::frexp(size, &power);
  const int step = std::max(power - 11, -24);
  const auto steps = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, -step)));
  return static_cast<std::uint16_t>(sign | (static_cast<std::uint32_t>(step + 24) * 1024 + steps));
}

template <typename From>
Constant of_numbers(Shape shape, const std::vector<From>& values, DType dtype) {
  Tensor out = Tensor::empty(std::move(shape), dtype);
  const std::span<std::byte> to = out.mutable_bytes();
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (dtype) {
      case DType::kFloat32: put<float>(to, i, values[i]); break;
      case DType::kFloat64: put<double>(to, i, values[i]); break;
      case DType::kFloat16:
        put<std::uint16_t>(to, i, half_bits(static_cast<double>(values[i])));
        break;
      case DType::kBFloat16:
        put<std::uint16_t>(to, i, bfloat_bits(static_cast<float>(values[i])));
        break;
      case DType::kInt64: put<std::int64_t>(to, i, values[i]); break;
      case DType::kInt32: put<std::int32_t>(to, i, values[i]); break;
      case DType::kInt8: put<std::int8_t>(to, i, values[i]); break;
      case DType::kUInt8: put<std::uint8_t>(to, i, values[i]); break;
      case DType::kBool: put<std::uint8_t>(to, i, values[i] != 0); break;
    }
  }
  return Constant(std::move(out));
}

}  // namespace

Constant::Constant(Tensor owned)
    : spec_(owned.spec()), owned_(std::move(owned)), bytes_(owned_.bytes()) {}

Constant Constant::of_integers(Shape shape, const std::vector<std::int64_t>& values, DType dtype) {
  return of_numbers(std::move(shape), values, dtype);
}

Constant Constant::of_reals(Shape shape, const std::vector<double>& values, DType dtype) {
  return of_numbers(std::move(shape), values, dtype);
}

Constant Constant::filled(Shape shape, const Constant& one) {
  Constant out = one;
  out.spec_.shape = std::move(shape);
  out.is_fill_ = true;
  if (element_count(out.spec_.shape) > kMaxElements) check_folded(kMaxElements);
  return out;
}

void Constant::check_folded(std::int64_t count) {
  if (count > kMaxFoldedElements) {
    fail(ErrorCode::kResourceExhausted,
         "a constant of {} numbers would have to be computed at import; at most {} are", count,
         kMaxFoldedElements);
  }
}

std::vector<double> Constant::reals() const {
  check_folded(size());
  std::vector<double> out(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = real_at(bytes_, spec_.dtype, is_fill_ ? 0 : i);
  return out;
}

std::vector<std::int64_t> Constant::integers() const {
  check_folded(size());
  std::vector<std::int64_t> out(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t at = is_fill_ ? 0 : i;
    out[i] = spec_.dtype == DType::kInt64 ? element<std::int64_t>(bytes_, at)
                                          : whole(real_at(bytes_, spec_.dtype, at));
  }
  return out;
}

std::optional<std::int64_t> Constant::beyond_float32() const {
  if (is_floating(spec_.dtype) || size() == 0) return std::nullopt;
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  const std::int64_t count = is_fill_ ? 1 : size();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t number = spec_.dtype == DType::kInt64
                                    ? element<std::int64_t>(bytes_, at)
                                    : whole(real_at(bytes_, spec_.dtype, at));
    const auto real = static_cast<double>(number);
    const bool holds = number > -kExact && number < kExact &&
                       static_cast<double>(static_cast<float>(real)) == real;
    if (!holds) return number;
  }
  return std::nullopt;
}

std::int64_t Constant::integer() const {
  if (size() != 1)
    fail(ErrorCode::kInvalidArgument, "one number is needed, not {}", spec_text(spec_));
  return integers()[0];
}

double Constant::real() const {
  if (size() != 1)
    fail(ErrorCode::kInvalidArgument, "one number is needed, not {}", spec_text(spec_));
  return reals()[0];
}

Tensor Constant::tensor() const {
  if (owned_.defined() && !is_fill_) return owned_.reshaped(spec_.shape);
  if (is_fill_ && size() > kMaxFilledElements) {
    fail(ErrorCode::kResourceExhausted,
         "one number would fill a constant of {}; at most {} numbers are filled so",
         spec_text(spec_), kMaxFilledElements);
  }
  Tensor out = Tensor::empty(spec_.shape, spec_.dtype);
  const std::span<std::byte> to = out.mutable_bytes();
  if (!is_fill_) {
    std::copy(bytes_.begin(), bytes_.end(), to.begin());
    return out;
  }
  const std::size_t width = dtype_size(spec_.dtype);
  for (std::size_t at = 0; at < to.size(); at += width)
    std::copy_n(bytes_.begin(), width, to.begin() + static_cast<std::ptrdiff_t>(at));
  return out;
}

Constant Constant::reshaped(Shape shape) const {
  if (element_count(shape) != size()) {
    fail(ErrorCode::kInvalidArgument, "{} cannot be seen as {}", spec_text(spec_),
         shape_text(shape));
  }
  Constant out = *this;
  if (origin_.turned && shape != spec_.shape) out.origin_ = {};
  out.spec_.shape = std::move(shape);
  return out;
}

Constant Constant::transposed() const {
  const std::int64_t rows = spec_.shape.at(0), columns = spec_.shape.at(1);
  Constant out =
      moved({columns, rows}, [&](std::int64_t i) { return i % rows * columns + i / rows; });
  if (!origin_.name.empty()) out.origin_ = {origin_.name, !origin_.turned};
  return out;
}

}  // namespace harmonics::inline in_models
