#include <harmonics/base/byte_fields.h>

#include <gtest/gtest.h>

#include <vector>

#include <harmonics/base/error.h>

namespace harmonics::inline in_base {
namespace {

enum class Colour : std::uint8_t { kRed, kBlue };

struct Point {
  std::int32_t x = 0;
  bool visible = false;
  Colour colour = Colour::kRed;
  std::string name;
  std::array<std::byte, 2> mark{};
  std::vector<std::uint16_t> steps;
  bool operator==(const Point&) const = default;
};

constexpr auto kFields = [](auto& archive, auto& point) {
  archive.number(point.x);
  archive.flag(point.visible);
  archive.template kind<std::uint16_t>(point.colour, Colour::kBlue);
  archive.text(point.name, 8);
  archive.raw(point.mark);
  archive.list(point.steps, 4, sizeof(std::uint16_t), [&](auto& step) { archive.number(step); });
  archive.check(point.x >= 0, "a point left of the edge");
};

const Point kPoint{7, true, Colour::kBlue, "a", {std::byte{1}, std::byte{2}}, {5, 6}};

TEST(ByteFields, ARecordComesBack) {
  const Bytes bytes = write_fields(kPoint, kFields);
  EXPECT_EQ(to_hex(bytes), "07000000010100010000006101020200000005000600");
  EXPECT_EQ(read_fields<Point>(bytes, "point", kFields), kPoint);
}

std::string refusal_of(const Bytes& bytes) {
  try {
    (void)read_fields<Point>(bytes, "point", kFields);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    return error.what();
  }
  return "";
}

TEST(ByteFields, WhatDoesNotFitIsAnErrorThatNamesIt) {
  const Bytes whole = write_fields(kPoint, kFields);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal_of(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))),
              "");
  }
  const auto changed = [&](std::size_t at, int value) {
    Bytes bytes = whole;
    bytes.at(at) = static_cast<std::byte>(value);
    return refusal_of(bytes);
  };
  EXPECT_NE(changed(3, 0x80).find("a point left of the edge"), std::string::npos);
  EXPECT_NE(changed(4, 2).find("a flag that is neither 0 nor 1"), std::string::npos);
  EXPECT_NE(changed(5, 9).find("a number that stands for nothing"), std::string::npos);
  EXPECT_NE(changed(7, 9), "") << "a longer text than its limit";
  EXPECT_NE(changed(14, 5), "") << "more items than their limit";
  Bytes longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_NE(refusal_of(longer).find("bytes follow the end"), std::string::npos);
}

}  // namespace
}  // namespace harmonics::inline in_base
