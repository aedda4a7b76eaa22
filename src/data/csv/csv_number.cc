#include "csv_number.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace harmonics::inline in_data {
namespace {

bool equals_ignoring_case(std::string_view text, std::string_view lower_case) {
  return std::ranges::equal(text, lower_case, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

// Whether a decimal number that does not fit its type is too small rather than too large: it is
// 0.d… times ten to some power, and the sign of that power tells.
bool is_tiny(std::string_view text) {
  std::int64_t power = 0;
  bool past_point = false;
  bool past_zeros = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '.') {
      past_point = true;
    } else if (c == 'e' || c == 'E') {
      const std::size_t sign = i + 1 < text.size() && text[i + 1] == '+' ? 1 : 0;
      std::int64_t exponent = 0;
      const auto read =
          std::from_chars(text.data() + i + 1 + sign, text.data() + text.size(), exponent);
      if (read.ec == std::errc::result_out_of_range) return text[i + 1] == '-';
      return power + exponent < 0;
    } else if (csv_detail::is_digit(c)) {
      past_zeros = past_zeros || c != '0';
      if (past_zeros && !past_point) ++power;
      if (!past_zeros && past_point) --power;
    }
  }
  return power < 0;
}

template <typename T>
NumberFault parse_float(std::string_view text, T& out) {
  const bool negative = text.starts_with('-');
  const std::string_view digits = text.substr(negative ? 1 : 0);
  if (digits.empty()) return NumberFault::kNotANumber;
  if (!csv_detail::is_digit(digits[0]) && digits[0] != '.') {
    if (equals_ignoring_case(digits, "nan")) {
      out = std::numeric_limits<T>::quiet_NaN();
    } else if (equals_ignoring_case(digits, "inf")) {
      out = negative ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
    } else {
      return NumberFault::kNotANumber;
    }
    return NumberFault::kNone;
  }
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, out);
  if (read.ec == std::errc::invalid_argument || read.ptr != end) return NumberFault::kNotANumber;
  if (read.ec == std::errc::result_out_of_range) {
    if (!is_tiny(digits)) return NumberFault::kOutOfRange;
    out = T{0};
  }
  if (negative) out = -out;
  return NumberFault::kNone;
}

template <typename T>
NumberFault parse_integer(std::string_view text, T& out) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec == std::errc::invalid_argument || read.ptr != end) return NumberFault::kNotANumber;
  if (read.ec == std::errc::result_out_of_range ||
      value < std::int64_t{std::numeric_limits<T>::min()} ||
      value > std::int64_t{std::numeric_limits<T>::max()}) {
    return NumberFault::kOutOfRange;
  }
  out = static_cast<T>(value);
  return NumberFault::kNone;
}

}  // namespace

template <typename T>
NumberFault parse_number(std::string_view text, T& out) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return NumberFault::kNotANumber;
  }
  if constexpr (std::is_floating_point_v<T>) {
    return parse_float(text, out);
  } else {
    if constexpr (std::is_same_v<T, bool>) {
      const bool is_true = equals_ignoring_case(text, "true");
      if (is_true || equals_ignoring_case(text, "false")) {
        out = is_true;
        return NumberFault::kNone;
      }
    }
    return parse_integer(text, out);
  }
}

template NumberFault parse_number(std::string_view, float&);
template NumberFault parse_number(std::string_view, double&);
template NumberFault parse_number(std::string_view, std::int64_t&);
template NumberFault parse_number(std::string_view, std::int32_t&);
template NumberFault parse_number(std::string_view, std::int8_t&);
template NumberFault parse_number(std::string_view, std::uint8_t&);
template NumberFault parse_number(std::string_view, bool&);

}  // namespace harmonics::inline in_data
