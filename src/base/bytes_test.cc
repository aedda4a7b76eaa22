#include <harmonics/base/bytes.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>

namespace harmonics::inline in_base {
namespace {

using ::testing::HasSubstr;

template <typename Use>
std::string data_loss(const Use& use) {
  try {
    use();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Bytes, WritesLittleEndian) {
  ByteWriter out;
  out.number(std::uint32_t{0x01020304});
  out.number(std::int16_t{-2});
  out.text("hi");
  EXPECT_EQ(to_hex(out.bytes()), "04030201feff020000006869");
}

TEST(Bytes, ReadsBackWhatWasWritten) {
  ByteWriter out;
  out.number(std::uint8_t{7});
  out.number(-1.5);
  out.text(std::string("a\0b", 3));
  out.raw(bytes_of("tail"));
  const Bytes bytes = out.take();

  ByteReader in(bytes, "record");
  EXPECT_EQ(in.number<std::uint8_t>(), 7);
  EXPECT_EQ(in.number<double>(), -1.5);
  EXPECT_EQ(in.text(3), std::string("a\0b", 3));
  EXPECT_EQ(in.left(), 4u);
  EXPECT_EQ(to_hex(in.take(4)), to_hex(bytes_of("tail")));
  EXPECT_EQ(in.left(), 0u);
  EXPECT_EQ(in.offset(), bytes.size());
}

TEST(Bytes, RefusesToReadPastTheEndAndStaysWhereItWas) {
  ByteReader in(bytes_of("abc"), "record");
  EXPECT_THAT(data_loss([&] { (void)in.number<std::uint32_t>(); }),
              HasSubstr("broken record at byte 0: 4 bytes are needed and 3 are left"));
  EXPECT_EQ(in.take(3).size(), 3u);
  EXPECT_THAT(data_loss([&] { (void)in.take(1); }), HasSubstr("at byte 3"));
  EXPECT_THAT(data_loss([&] { (void)in.take(~std::size_t{0}); }), HasSubstr("0 are left"));
}

TEST(Bytes, BoundsTextAndCountsBeforeAllocating) {
  ByteWriter out;
  out.number(std::uint32_t{0xffffffff});
  out.raw(bytes_of("short"));
  const auto read = [&](const auto& use) {
    return data_loss([&] {
      ByteReader in(out.bytes(), "record");
      use(in);
    });
  };
  EXPECT_THAT(read([](ByteReader& in) { (void)in.text(100); }),
              HasSubstr("a count of 4294967295 is above the limit of 100"));
  EXPECT_THAT(read([](ByteReader& in) { (void)in.text(~std::size_t{0}); }),
              HasSubstr("cannot fit in the 5 bytes that are left"));
  EXPECT_THAT(read([](ByteReader& in) { (void)in.count(~std::size_t{0}, 8); }),
              HasSubstr("cannot fit in the 5 bytes that are left"));
}

TEST(Bytes, AcceptsACountThatJustFits) {
  ByteWriter out;
  out.number(std::uint32_t{3});
  out.raw(bytes_of("aabbcc"));
  EXPECT_EQ(ByteReader(out.bytes(), "record").count(3, 2), 3u);
  EXPECT_THAT(data_loss([&] { (void)ByteReader(out.bytes(), "record").count(2, 2); }),
              HasSubstr("above the limit of 2"));
  EXPECT_THAT(data_loss([&] { (void)ByteReader(out.bytes(), "record").count(3, 3); }),
              HasSubstr("cannot fit"));
}

}  // namespace
}  // namespace harmonics::inline in_base
