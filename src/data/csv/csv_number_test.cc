#include "csv_number.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <string>

#include <harmonics/base/format.h>
#include <harmonics/base/random.h>

namespace harmonics::inline in_data {
namespace {

template <typename T>
T number(const std::string& text) {
  T value{};
  EXPECT_EQ(parse_number(text, value), NumberFault::kNone) << text;
  return value;
}

template <typename T>
NumberFault fault(const std::string& text) {
  T value{};
  return parse_number(text, value);
}

// Bits, so that -0 differs from 0.
template <typename T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// Both ways of reading agree with std::from_chars, where the plain way answers at all.
template <typename T>
int plain_answers(const std::string& text) {
  T expected{};
  std::from_chars(text.data(), text.data() + text.size(), expected);
  EXPECT_TRUE(same_bits(number<T>(text), expected)) << text;
  T plain{};
  const std::string line = text + std::string(kNumberPadding, '\n');
  const char* const end = parse_plain(line.data(), plain);
  if (end == nullptr) return 0;
  EXPECT_EQ(end, line.data() + text.size()) << text;
  EXPECT_TRUE(same_bits(plain, expected)) << text;
  return 1;
}

std::string random_digits(Random& random, std::uint64_t count) {
  std::string digits;
  for (std::uint64_t i = 0; i < count; ++i) digits += static_cast<char>('0' + random.below(10));
  return digits;
}

TEST(CsvNumber, RandomDecimalsAreCorrectlyRounded) {
  Random random(1, "decimals");
  int plain = 0;
  constexpr int kRounds = 100000;
  for (int i = 0; i < kRounds; ++i) {
    std::string text = random.below(4) == 0 ? "-" : "";
    text += random_digits(random, 1 + random.below(9));
    if (random.below(4) != 0) text += format(".{}", random_digits(random, random.below(9)));
    plain += plain_answers<float>(text);
    plain += plain_answers<double>(text);
    if (HasFailure()) return;
  }
  EXPECT_GT(plain, kRounds * 19 / 10);  // nearly all of these are plain
}

TEST(CsvNumber, FloatsHalfWayBetweenTwoAreCorrectlyRounded) {
  Random random(2, "midpoints");
  for (int i = 0; i < 20000; ++i) {
    // The middle of two neighbouring floats, then the smallest change to its last digit.
    const auto low = static_cast<float>(random.below(1 << 24) + (1 << 23)) / 1024.0F;
    const double middle =
        (static_cast<double>(low) + static_cast<double>(std::nextafter(low, 1e30F))) / 2;
    std::string text = format("{:.11f}", middle);
    plain_answers<float>(text);
    text.back() = '1';
    plain_answers<float>(text);
    plain_answers<float>(format("{:.10f}", middle - 1e-10));
    if (HasFailure()) return;
  }
}

TEST(CsvNumber, RandomIntegersAgree) {
  Random random(3, "integers");
  for (int i = 0; i < 50000; ++i) {
    const std::string text = format("{}{}", random.below(2) == 0 ? "-" : "",
                                    random_digits(random, 1 + random.below(18)));
    plain_answers<std::int64_t>(text);
    if (HasFailure()) return;
  }
}

TEST(CsvNumber, Forms) {
  EXPECT_EQ(number<float>("5."), 5.0F);
  EXPECT_EQ(number<float>(".5"), 0.5F);
  EXPECT_EQ(number<float>("+1.5e+3"), 1500.0F);
  EXPECT_EQ(number<double>("1E-3"), 1e-3);
  EXPECT_TRUE(std::signbit(number<float>("-0")));
  EXPECT_TRUE(std::isnan(number<float>("NaN")));
  EXPECT_EQ(number<float>("inf"), INFINITY);
  EXPECT_EQ(number<double>("-INF"), -INFINITY);
  EXPECT_EQ(number<std::int64_t>("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(number<std::int8_t>("-128"), -128);
  EXPECT_EQ(number<std::uint8_t>("+255"), 255);
  EXPECT_TRUE(number<bool>("True"));
  EXPECT_FALSE(number<bool>("0"));
}

TEST(CsvNumber, NotNumbers) {
  for (const char* text : {"", "-", "+", ".", "1e", "e5", "1,5", "0x10", "1 2", "--1", "+-1",
                           "infinity", "nan(1)", "abc", "1.5.2", "１"}) {
    EXPECT_EQ(fault<float>(text), NumberFault::kNotANumber) << text;
    EXPECT_EQ(fault<double>(text), NumberFault::kNotANumber) << text;
  }
  for (const char* text : {"", "1.0", "1e3", "nan", "inf", "true", "+"}) {
    EXPECT_EQ(fault<std::int64_t>(text), NumberFault::kNotANumber) << text;
  }
  EXPECT_EQ(fault<bool>("yes"), NumberFault::kNotANumber);
}

TEST(CsvNumber, RangeOfIntegers) {
  EXPECT_EQ(fault<std::int64_t>("9223372036854775808"), NumberFault::kOutOfRange);
  EXPECT_EQ(fault<std::int32_t>("2147483648"), NumberFault::kOutOfRange);
  EXPECT_EQ(fault<std::int8_t>("-129"), NumberFault::kOutOfRange);
  EXPECT_EQ(fault<std::uint8_t>("-1"), NumberFault::kOutOfRange);
  EXPECT_EQ(fault<bool>("2"), NumberFault::kOutOfRange);
}

TEST(CsvNumber, TooLargeIsAnErrorTooSmallIsZero) {
  const std::string zeros(400, '0');
  EXPECT_EQ(fault<float>("1e39"), NumberFault::kOutOfRange);
  EXPECT_EQ(fault<double>("1e400"), NumberFault::kOutOfRange);
  EXPECT_EQ(fault<double>("1e99999999999999999999"), NumberFault::kOutOfRange);
  EXPECT_EQ(fault<double>(format("1{}", zeros)), NumberFault::kOutOfRange);
  EXPECT_EQ(fault<double>(format("1{}e-5", zeros)), NumberFault::kOutOfRange);
  EXPECT_EQ(number<float>("1e-50"), 0.0F);
  EXPECT_TRUE(std::signbit(number<float>("-1e-50")));
  EXPECT_EQ(number<double>("1e-400"), 0.0);
  EXPECT_EQ(number<double>("1e-99999999999999999999"), 0.0);
  EXPECT_EQ(number<double>(format("0.{}1", zeros)), 0.0);
  EXPECT_EQ(number<double>(format("0.{}1e+5", zeros)), 0.0);
}

}  // namespace
}  // namespace harmonics::inline in_data
