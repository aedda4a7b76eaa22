#include <harmonics/transport/crc32c.h>

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include <harmonics/base/random.h>

namespace harmonics::inline in_transport {
namespace {

Bytes random_bytes(std::size_t count) {
  Random random(count, "crc32c");
  Bytes out(count);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random.below(256));
  return out;
}

// The check value of the CRC catalogue and the four patterns of RFC 3720, B.4.
TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c(Bytes(32, std::byte{0})), 0x8a9136aau);
  EXPECT_EQ(crc32c(Bytes(32, std::byte{0xff})), 0x62a8ab43u);
  Bytes up(32), down(32);
  for (std::size_t i = 0; i < 32; ++i) {
    up[i] = static_cast<std::byte>(i);
    down[i] = static_cast<std::byte>(31 - i);
  }
  EXPECT_EQ(crc32c(up), 0x46dd794eu);
  EXPECT_EQ(crc32c(down), 0x113fdb5cu);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, PortableKnowsTheSameValues) {
  EXPECT_EQ(crc32c_portable(bytes_of("123456789"), 0), 0xe3069283u);
  EXPECT_EQ(crc32c_portable(Bytes(32, std::byte{0xff}), 0), 0x62a8ab43u);
}

TEST(Crc32c, HardwareAndTablesAgreeAtEveryLengthAndOffset) {
  if (!crc32c_has_hardware()) GTEST_SKIP() << "this processor has no CRC32C instruction";
  const Bytes bytes = random_bytes(70'000);
  std::vector<std::size_t> lengths = {6143, 6144, 6145, 12287, 12288, 12289, 65536, 69'990};
  for (std::size_t i = 0; i < 80; ++i) lengths.push_back(i);
  for (const std::size_t length : lengths) {
    for (const std::size_t offset : {0, 1, 7}) {
      const ByteSpan piece = ByteSpan(bytes).subspan(offset, length);
      for (const std::uint32_t before : {0u, 0xdeadbeefu}) {
        ASSERT_EQ(crc32c_hardware(piece, before), crc32c_portable(piece, before))
            << length << " bytes at " << offset;
      }
    }
  }
}

TEST(Crc32c, PiecesGiveTheWhole) {
  const Bytes bytes = random_bytes(20'000);
  const std::uint32_t whole = crc32c(bytes);
  for (const std::size_t cut : {0, 1, 9, 6144, 13'000, 20'000}) {
    const std::uint32_t first = crc32c(ByteSpan(bytes).first(cut));
    EXPECT_EQ(crc32c(ByteSpan(bytes).subspan(cut), first), whole) << cut;
  }
}

}  // namespace
}  // namespace harmonics::inline in_transport
