// Numbers in CSV fields: a fast way for the short ones that make up most files, a complete one for
// the rest. Both give the correctly rounded value, so it never matters which was taken.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

namespace harmonics::inline in_data {

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

// The digits at the start of eight bytes, all of them at once: no branch depends on how many there
// are, which in a column of numbers nobody can predict.
struct DigitRun {
  std::uint64_t value;
  unsigned count;  // 8: there may be more
};

inline DigitRun read_run(const char* at) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, at, sizeof bytes);
  bytes ^= 0x3030303030303030;  // '0'..'9' become 0..9
  // The high bit of every byte above 9. A carry may spoil bytes after the first of them, no more.
  const std::uint64_t others = (bytes | (bytes + 0x7676767676767676)) & 0x8080808080808080;
  const auto count = static_cast<unsigned>(std::countr_zero(others)) / 8;
  if (count == 0) return {0, 0};
  bytes <<= 64 - 8 * count;  // leading zeros in front
  bytes = bytes * 10 + (bytes >> 8);
  constexpr std::uint64_t kPairs = 0x000000FF000000FF;
  const std::uint64_t value = ((bytes & kPairs) * (100 + (std::uint64_t{1000000} << 32)) +
                               ((bytes >> 16) & kPairs) * (1 + (std::uint64_t{10000} << 32))) >>
                              32;
  return {value, count};
}

// Rounding a double on to float rounds twice. That is harmless unless the double lies exactly half
// way between two floats: everywhere else it is on the same side of the midpoint as the true value.
inline bool is_float_midpoint(double value) {
  constexpr std::uint64_t kDroppedBits = (std::uint64_t{1} << 29) - 1;
  return (std::bit_cast<std::uint64_t>(value) & kDroppedBits) == (std::uint64_t{1} << 28);
}

// Digits, a point among them, as one number and how many came after the point.
struct Decimal {
  std::uint64_t digits = 0;
  unsigned fraction = 0;
  const char* end = nullptr;  // null: no digits, or more than kMaxDigits
};

inline Decimal read_long_decimal(const char* const first) {
  Decimal read;
  const char* at = read_digits(first, read.digits);
  auto digit_count = at - first;
  if (*at == '.') {
    const char* const point = at;
    at = read_digits(at + 1, read.digits);
    read.fraction = static_cast<unsigned>(at - point) - 1;
    digit_count += read.fraction;
  }
  if (digit_count > 0 && digit_count <= kMaxDigits) read.end = at;
  return read;
}

inline Decimal read_decimal(const char* first) {
  const DigitRun whole = read_run(first);
  if (whole.count == 8) return read_long_decimal(first);
  const char* const point = first + whole.count;
  if (*point != '.') return {whole.value, 0, whole.count == 0 ? nullptr : point};
  const DigitRun part = read_run(point + 1);
  if (part.count == 8) return read_long_decimal(first);
  if (whole.count + part.count == 0) return {};
  const auto power = static_cast<std::uint64_t>(kPowersOfTen[part.count]);
  return {whole.value * power + part.value, part.count, point + 1 + part.count};
}

template <typename T>
const char* parse_plain_float(const char* at, T& out) {
  const bool negative = *at == '-';
  const Decimal read = read_decimal(at + (negative ? 1 : 0));
  if (read.end == nullptr || read.digits > kMaxExact) return nullptr;
  // Whichever way it goes, one operation on exact operands rounds once, as it should.
  T value = static_cast<T>(static_cast<std::int64_t>(read.digits));
  if (read.fraction != 0) {
    const double quotient = static_cast<double>(read.digits) / kPowersOfTen[read.fraction];
    if (std::is_same_v<T, float> && is_float_midpoint(quotient)) return nullptr;
    value = static_cast<T>(quotient);
  }
  out = negative ? -value : value;
  return read.end;
}

template <typename T>
const char* parse_plain_integer(const char* at, T& out) {
  const bool negative = *at == '-';
  const char* const first = at + (negative ? 1 : 0);
  auto [digits, count] = read_run(first);
  const char* end = first + count;
  if (count == 8) end = read_digits(end, digits);
  if (end == first || end - first > kMaxDigits) return nullptr;
  const auto value =
      negative ? -static_cast<std::int64_t>(digits) : static_cast<std::int64_t>(digits);
  if (value < std::int64_t{std::numeric_limits<T>::min()} ||
      value > std::int64_t{std::numeric_limits<T>::max()}) {
    return nullptr;
  }
  out = static_cast<T>(value);
  return end;
}

}  // namespace csv_detail

/// How many bytes after the text of a number must be readable; the first must be no digit.
inline constexpr std::size_t kNumberPadding = 8;

/// Reads a number of the plain form -12.5 that begins at `at` and answers where it ends; null where
/// parse_number has to decide. Looks up to kNumberPadding bytes past the end of the number.
template <typename T>
const char* parse_plain(const char* at, T& out) {
  static_assert(csv_detail::kMaxDigits <= csv_detail::kMaxPower);
  if constexpr (std::is_floating_point_v<T>) {
    return csv_detail::parse_plain_float(at, out);
  } else {
    return csv_detail::parse_plain_integer(at, out);
  }
}

}  // namespace harmonics::inline in_data
