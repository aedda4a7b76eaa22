// Numbers in CSV fields: a fast way for the short ones that make up most files, a complete one for
// the rest. Both give the correctly rounded value, so it never matters which was taken.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

namespace harmonics {

enum class NumberFault : std::uint8_t { kNone, kNotANumber, kOutOfRange };

/// Reads the whole of `text` (no spaces around it) as a T: float, double, std::int64_t,
/// std::int32_t, std::int8_t, std::uint8_t or bool. A '+' in front is accepted; floats may be nan,
/// inf or -inf in any case; a bool is 0, 1, true or false. A float too small for T becomes zero,
/// one too large is out of range.
template <typename T>
[[nodiscard]] NumberFault parse_number(std::string_view text, T& out);

namespace csv_detail {

inline constexpr double kPowersOfTen[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                          1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                          1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
inline constexpr int kMaxPower = 22;  // the largest power of ten that a double holds exactly
inline constexpr std::uint64_t kMaxExact = std::uint64_t{1} << 53;
inline constexpr int kMaxDigits = 18;  // so many digits always fit an int64

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

inline const char* read_digits(const char* at, std::uint64_t& value) {
  for (; is_digit(*at); ++at) value = value * 10 + static_cast<std::uint64_t>(*at - '0');
  return at;
}

// Rounding a double on to float rounds twice. That is harmless unless the double lies exactly half
// way between two floats: everywhere else it is on the same side of the midpoint as the true value.
inline bool is_float_midpoint(double value) {
  constexpr std::uint64_t kDroppedBits = (std::uint64_t{1} << 29) - 1;
  return (std::bit_cast<std::uint64_t>(value) & kDroppedBits) == (std::uint64_t{1} << 28);
}

template <typename T>
const char* parse_plain_float(const char* at, T& out) {
  const bool negative = *at == '-';
  const char* const first = at + (negative ? 1 : 0);
  std::uint64_t digits = 0;
  at = read_digits(first, digits);
  auto digit_count = at - first;
  int fraction = 0;
  if (*at == '.') {
    const char* const point = at;
    at = read_digits(at + 1, digits);
    fraction = static_cast<int>(at - point) - 1;
    digit_count += fraction;
  }
  if (digit_count == 0 || digit_count > kMaxDigits || digits > kMaxExact) return nullptr;
  // Both operands are exact, so the one division rounds once, as it should.
  const double value = static_cast<double>(digits) / kPowersOfTen[fraction];
  if constexpr (std::is_same_v<T, float>) {
    if (is_float_midpoint(value)) return nullptr;
  }
  out = static_cast<T>(negative ? -value : value);
  return at;
}

template <typename T>
const char* parse_plain_integer(const char* at, T& out) {
  const bool negative = *at == '-';
  const char* const first = at + (negative ? 1 : 0);
  std::uint64_t digits = 0;
  at = read_digits(first, digits);
  if (at == first || at - first > kMaxDigits) return nullptr;
  const auto value =
      negative ? -static_cast<std::int64_t>(digits) : static_cast<std::int64_t>(digits);
  if (value < std::int64_t{std::numeric_limits<T>::min()} ||
      value > std::int64_t{std::numeric_limits<T>::max()}) {
    return nullptr;
  }
  out = static_cast<T>(value);
  return at;
}

}  // namespace csv_detail

/// Reads a number of the plain form -12.5 that begins at `at` and answers where it ends; null where
/// parse_number has to decide. Something that is no digit must follow within readable memory.
template <typename T>
const char* parse_plain(const char* at, T& out) {
  static_assert(csv_detail::kMaxDigits <= csv_detail::kMaxPower);
  if constexpr (std::is_floating_point_v<T>) {
    return csv_detail::parse_plain_float(at, out);
  } else {
    return csv_detail::parse_plain_integer(at, out);
  }
}

}  // namespace harmonics
