#include <harmonics/base/entropy.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include <harmonics/base/bytes.h>

namespace harmonics::inline in_base {
namespace {

TEST(Entropy, FillsEveryByte) {
  // More than one call is sure to give.
  Bytes bytes(100'000);
  fill_entropy(bytes);
  Bytes seen = bytes;
  std::ranges::sort(seen);
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  EXPECT_EQ(seen.size(), 256u) << "every value is among so many bytes";
  const ByteSpan end = ByteSpan(bytes).last(64);
  EXPECT_TRUE(std::ranges::any_of(end, [](std::byte byte) { return byte != std::byte{0}; }));
}

TEST(Entropy, OfNothingIsNothing) {
  fill_entropy({});
  EXPECT_EQ(random_hex(0), "");
}

TEST(Entropy, HexHasTwoDigitsAByteAndDiffers) {
  const std::string text = random_hex(16);
  EXPECT_EQ(text.size(), 32u);
  EXPECT_EQ(text.find_first_not_of("0123456789abcdef"), text.npos) << text;
  EXPECT_NE(text, random_hex(16));
}

}  // namespace
}  // namespace harmonics::inline in_base
