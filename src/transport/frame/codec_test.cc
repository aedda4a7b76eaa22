#include "codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include <harmonics/base/random.h>

#include <error_testing.h>

namespace harmonics::inline in_transport {
namespace {

using ::testing::HasSubstr;

// Values as a trained network has them: normal, half of them cut to zero.
std::vector<float> activations(std::size_t count) {
  Random random(3, "activations");
  std::vector<float> out(count);
  for (float& value : out) value = std::max(0.0F, random.normal());
  return out;
}

ByteSpan as_bytes(const std::vector<float>& values) { return std::as_bytes(std::span(values)); }

TEST(Codec, RestoresEveryElementSizeAndCount) {
  for (const std::size_t width : {1, 2, 4, 8}) {
    for (const std::size_t count : {1, 2, 3, 100, 4095, 4096, 4097, 50'000}) {
      Bytes raw(count * width);
      for (std::size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<std::byte>(i / width % 7);
      const auto packed = pack(raw, width);
      if (!packed) {
        EXPECT_LT(count * width, 64u) << "this should have become smaller";
        continue;
      }
      EXPECT_LT(packed->size, raw.size());
      Bytes back(raw.size(), std::byte{0xee});
      unpack({packed->buffer->data(), packed->size}, width, back);
      EXPECT_EQ(back, raw) << count << " elements of " << width;
    }
  }
}

TEST(Codec, PlanesBeatPlainBytes) {
  const std::vector<float> values = activations(100'000);
  const auto planes = pack(as_bytes(values), 4);
  const auto plain = pack(as_bytes(values), 1);
  ASSERT_TRUE(planes && plain);
  EXPECT_LT(planes->size, plain->size);
}

TEST(Codec, WhatDoesNotShrinkIsLeftAlone) {
  Random random(1, "noise");
  Bytes noise(10'000);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random.below(256));
  EXPECT_FALSE(pack(noise, 4));
  EXPECT_FALSE(pack({}, 4));
}

TEST(Codec, DamagedOrWrongSizesAreErrors) {
  const std::vector<float> values = activations(1000);
  const auto packed = pack(as_bytes(values), 4);
  ASSERT_TRUE(packed);
  Bytes bytes(packed->buffer->data(), packed->buffer->data() + packed->size);
  Bytes raw(4000);
  const auto code = [&](std::size_t raw_size) {
    raw.resize(raw_size);
    return error_of([&] { unpack(bytes, 4, raw); });
  };
  EXPECT_EQ(code(4000), "no error");
  EXPECT_THAT(code(3996), HasSubstr("data_loss"));
  EXPECT_THAT(code(4004), HasSubstr("holds 4000 bytes instead of 4004"));
  bytes.resize(bytes.size() - 1);
  EXPECT_THAT(code(4000), HasSubstr("data_loss"));
  bytes.assign(100, std::byte{0x55});
  EXPECT_THAT(code(4000), HasSubstr("data_loss"));
}

}  // namespace
}  // namespace harmonics::inline in_transport
