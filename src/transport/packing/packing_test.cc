// What packing promises: how far off a value may be, what survives, and that nothing else is read.
#include <harmonics/transport/packing.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>

#include "packed_rows.h"

namespace harmonics::inline in_transport {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && std::ranges::equal(a.bytes(), b.bytes());
}

// Values of all magnitudes, some equal, some zero; rows differ by factors of up to 2^60.
Tensor made(Shape shape, std::uint64_t seed) {
  Random random(seed, "packing");
  Tensor out = Tensor::empty(std::move(shape));
  const auto values = out.mutable_values<float>();
  int exponent = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 16 == 0) exponent = static_cast<int>(random.below(60)) - 30;
    const double unit = static_cast<double>(random.below(1u << 24)) / (1u << 23) - 1.0;
    values[i] = random.below(9) == 0 ? 0.0F : static_cast<float>(std::ldexp(unit, exponent));
  }
  return out;
}

struct Case {
  Shape shape;
  std::size_t row;
};

std::vector<Case> cases() {
  return {{{3, 5}, 5},        {{2, 33}, 33},     {{4, 197, 768}, 768}, {{2, 6, 7, 7}, 49},
          {{2, 8, 2, 2}, 32}, {{1, 4, 3}, 12},   {{5, 3, 2, 2}, 12},   {{2, 1, 31, 2}, 62},
          {{0, 40}, 40},      {{7, 1, 1, 2}, 2}, {{1, 1001}, 1001},    {{3, 64, 33}, 33}};
}

TEST(Packing, ErrorIsHalfAStepOfTheRow) {
  for (const int bits : {8, 4}) {
    for (const Case& one : cases()) {
      for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        const Tensor tensor = made(one.shape, seed);
        const Tensor back = unpack_tensor(pack_tensor(tensor, bits));
        ASSERT_EQ(back.spec(), tensor.spec()) << bits << " " << shape_text(one.shape);
        const auto from = tensor.values<float>();
        const auto to = back.values<float>();
        for (std::size_t begin = 0; begin < from.size(); begin += one.row) {
          double largest = 0;
          for (std::size_t i = begin; i < begin + one.row; ++i) {
            largest = std::max<double>(largest, std::fabs(from[i]));
          }
          // Dividing rounds once more, which moves a value that lies between two codes.
          const double half_step = largest / top_code(bits) / 2 * (1 + 1e-4);
          for (std::size_t i = begin; i < begin + one.row; ++i) {
            ASSERT_LE(std::fabs(double{from[i]} - double{to[i]}), half_step)
                << bits << " bits, " << shape_text(one.shape) << " value " << i;
          }
        }
      }
    }
  }
}

TEST(Packing, SixteenBitsAreOffByOneIn256) {
  const Tensor tensor = made({9, 50}, 3);
  const Tensor back = unpack_tensor(pack_tensor(tensor, 16));
  const auto from = tensor.values<float>();
  const auto to = back.values<float>();
  for (std::size_t i = 0; i < from.size(); ++i) {
    ASSERT_LE(std::fabs(from[i] - to[i]), std::fabs(from[i]) * 0x1p-8F) << i;
  }
}

TEST(Packing, PackingAgainGivesTheSameBytes) {
  for (const int bits : {16, 8, 4}) {
    for (const Case& one : cases()) {
      for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        const Tensor packed = pack_tensor(made(one.shape, seed), bits);
        const Tensor back = unpack_tensor(packed);
        const Tensor again = pack_tensor(back, bits);
        ASSERT_TRUE(same_bytes(packed, again)) << bits << " " << shape_text(one.shape);
        ASSERT_TRUE(same_bytes(back, unpack_tensor(again)));
      }
    }
  }
}

TEST(Packing, SizeIsKnownBeforehandAndSmaller) {
  for (const int bits : {16, 8, 4}) {
    for (const Case& one : cases()) {
      const TensorSpec spec{one.shape};
      EXPECT_EQ(packed_bytes(spec, bits), pack_tensor(made(one.shape, 1), bits).byte_size());
    }
  }
  const TensorSpec block{{8, 197, 768}};
  EXPECT_LT(packed_bytes(block, 8) * 3.9, static_cast<double>(byte_count(block)));
  EXPECT_LT(packed_bytes(block, 4) * 7.8, static_cast<double>(byte_count(block)));
}

// A class token is a row of 197, and all of the answer is read from it.
TEST(Packing, TheFirstOfManyRowsOfASampleHasMoreBits) {
  const auto row = [](const Tensor& all, std::int64_t sample, std::int64_t index) {
    return all.slice(sample, sample + 1)
        .reshaped({all.shape()[1], all.shape()[2]})
        .slice(index, index + 1);
  };
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    Tensor tensor = made({3, 64, 40}, 9);
    if (dtype == DType::kFloat16) {
      const Tensor wide = tensor;
      tensor = Tensor::empty(wide.shape(), dtype);
      pack_float16(wide.values<float>(), tensor.mutable_bytes().data());
    }
    const Tensor eight = unpack_tensor(pack_tensor(tensor, 8));
    const Tensor four = unpack_tensor(pack_tensor(tensor, 4));
    for (std::int64_t sample = 0; sample < 3; ++sample) {
      EXPECT_TRUE(same_bytes(row(eight, sample, 0), row(tensor, sample, 0)));
      EXPECT_TRUE(
          same_bytes(row(four, sample, 0), unpack_tensor(pack_tensor(row(tensor, sample, 0), 8))));
      EXPECT_FALSE(same_bytes(row(eight, sample, 1), row(tensor, sample, 1)));
      EXPECT_TRUE(
          same_bytes(row(eight, sample, 1), unpack_tensor(pack_tensor(row(tensor, sample, 1), 8))));
    }
  }
  // A sample of fewer rows has none that stands out.
  const Tensor few = made({3, 63, 40}, 9);
  EXPECT_FALSE(same_bytes(row(unpack_tensor(pack_tensor(few, 8)), 0, 0), row(few, 0, 0)));
}

TEST(Packing, ARowIsTheSameInEveryBatch) {
  for (const int bits : {16, 8, 4}) {
    const Tensor batch = made({6, 10}, 5);
    const Tensor whole = unpack_tensor(pack_tensor(batch, bits));
    for (std::int64_t row = 0; row < 6; ++row) {
      const Tensor alone = unpack_tensor(pack_tensor(batch.slice(row, row + 1), bits));
      EXPECT_TRUE(same_bytes(alone, whole.slice(row, row + 1))) << bits << " row " << row;
    }
  }
}

TEST(Packing, ValuesThatAreNotFiniteSurvive) {
  Tensor tensor = made({3, 64}, 2);
  const auto values = tensor.mutable_values<float>();
  values[1] = kInfinity;
  values[2] = -kInfinity;
  values[3] = kNaN;
  for (std::size_t i = 64; i < 128; ++i) values[i] = i % 2 == 0 ? kNaN : -kInfinity;
  values[128] = std::numeric_limits<float>::max();
  values[129] = -std::numeric_limits<float>::max();
  values[130] = std::numeric_limits<float>::denorm_min();
  for (const int bits : {16, 8, 4}) {
    const Tensor packed = pack_tensor(tensor, bits);
    const Tensor back = unpack_tensor(packed);
    const auto to = back.values<float>();
    double largest = 0;
    for (std::size_t i = 0; i < 64; ++i) {
      if (std::isfinite(values[i])) largest = std::max<double>(largest, std::fabs(values[i]));
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(std::isnan(values[i]), std::isnan(to[i])) << bits << " value " << i;
      if (std::isinf(values[i])) {
        ASSERT_EQ(values[i], to[i]) << bits << " value " << i;
      }
      ASSERT_EQ(std::isfinite(values[i]), std::isfinite(to[i])) << bits << " value " << i;
      if (i < 64 && bits < 16 && std::isfinite(values[i])) {
        ASSERT_LE(std::fabs(values[i] - to[i]), largest / (top_code(bits) - 1) / 2 * 1.0001);
      }
    }
    EXPECT_TRUE(same_bytes(packed, pack_tensor(back, bits))) << bits;
  }
}

TEST(Packing, VerySmallRowsAreRoundedAlike) {
  for (const int bits : {8, 4}) {
    for (int exponent = -149; exponent < -90; ++exponent) {
      Tensor tensor = Tensor::zeros({1, 40});
      for (std::size_t i = 0; i < 40; ++i) {
        tensor.mutable_values<float>()[i] = std::ldexp(static_cast<float>(i) - 20.0F, exponent);
      }
      const Tensor packed = pack_tensor(tensor, bits);
      const Tensor back = unpack_tensor(packed);
      ASSERT_TRUE(same_bytes(packed, pack_tensor(back, bits))) << exponent;
      const double step =
          std::max<double>(std::ldexp(20.0, exponent) / top_code(bits), kSmallestScale);
      for (std::size_t i = 0; i < 40; ++i) {
        ASSERT_LE(std::fabs(double{tensor.values<float>()[i]} - back.values<float>()[i]),
                  step / 2 * 1.0001)
            << exponent;
      }
    }
  }
}

TEST(Packing, OnlyWhatGainsIsPacked) {
  const auto stays = [](const Tensor& tensor, int bits) {
    return same_bytes(pack_tensor(tensor, bits), tensor);
  };
  for (const int bits : {16, 8, 4}) {
    EXPECT_TRUE(stays(Tensor::zeros({4, 50}, DType::kInt64), bits));
    EXPECT_TRUE(stays(Tensor::zeros({4, 50}, DType::kInt32), bits));
    EXPECT_TRUE(stays(Tensor::zeros({4, 50}, DType::kUInt8), bits));
    EXPECT_TRUE(stays(Tensor::zeros({4, 50}, DType::kBool), bits));
    EXPECT_TRUE(stays(Tensor::zeros({4, 50}, DType::kFloat64), bits));
    EXPECT_TRUE(stays(Tensor::zeros({}), bits));
    EXPECT_TRUE(stays(Tensor::zeros({4, 0}), bits));
  }
  EXPECT_TRUE(stays(Tensor::zeros({4, 1}), 8));
  EXPECT_TRUE(stays(Tensor::zeros({4, 50}), kExactBits));
  EXPECT_TRUE(stays(Tensor::zeros({4, 50}), 0));
  EXPECT_TRUE(stays(Tensor::zeros({4, 50}, DType::kBFloat16), 16));
  EXPECT_FALSE(stays(Tensor::zeros({4, 50}, DType::kBFloat16), 8));
}

TEST(Packing, HalvesAreReadAndWrittenAsTheyAre) {
  // Every half there is, as a tensor of 32 rows; NaN stays NaN.
  Tensor halves = Tensor::empty({32, 2048}, DType::kFloat16);
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    std::memcpy(halves.mutable_bytes().data() + 2 * i, &half, 2);
  }
  std::vector<float> values(65536);
  unpack_float16(halves.bytes().data(), values);
  EXPECT_EQ(values[0x3c00], 1.0F);
  EXPECT_EQ(values[0x0001], 0x1p-24F);
  EXPECT_EQ(values[0xc000], -2.0F);
  Tensor again = Tensor::empty({32, 2048}, DType::kFloat16);
  pack_float16(values, again.mutable_bytes().data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) continue;
    ASSERT_EQ(std::memcmp(again.bytes().data() + 2 * i, halves.bytes().data() + 2 * i, 2), 0) << i;
  }
  const Tensor back = unpack_tensor(pack_tensor(halves, 8));
  ASSERT_EQ(back.spec(), halves.spec());
}

TEST(Packing, ResidualsGiveBackWhatWasTaken) {
  // A constant gradient: what arrives adds up to what was sent, however few the bits.
  Tensor gradient = made({4, 40}, 7);
  Tensor residual;
  std::vector<double> arrived(160);
  constexpr int kSteps = 64;
  for (int step = 0; step < kSteps; ++step) {
    const Tensor sent = unpack_tensor(pack_with_residual(gradient, 4, residual));
    for (std::size_t i = 0; i < arrived.size(); ++i) arrived[i] += sent.values<float>()[i];
  }
  const auto values = gradient.values<float>();
  for (std::size_t begin = 0; begin < arrived.size(); begin += 40) {
    double largest = 0;
    for (std::size_t i = begin; i < begin + 40; ++i) {
      largest = std::max<double>(largest, std::fabs(values[i]));
    }
    for (std::size_t i = begin; i < begin + 40; ++i) {
      // One step's error in all, not one per step.
      ASSERT_LE(std::fabs(arrived[i] - kSteps * double{values[i]}), largest / 7) << i;
    }
  }
  // Another shape begins anew; what is not finite is not kept.
  Tensor other = made({2, 40}, 8);
  other.mutable_values<float>()[5] = kNaN;
  const Tensor alone = pack_tensor(other, 4);
  EXPECT_TRUE(same_bytes(pack_with_residual(other, 4, residual), alone));
  for (const float value : residual.values<float>()) EXPECT_TRUE(std::isfinite(value));
}

TEST(Packing, BitsOfABoundary) {
  BoundaryPacking packing{{8, 0}, {{"a@1", {16, 8}}, {"b@1", {kExactBits, 0}}}};
  EXPECT_EQ(packing.of("c@1"), (BoundaryBits{8, 0}));
  EXPECT_EQ(packing.of("a@1"), (BoundaryBits{16, 8}));
  EXPECT_FALSE(packing.of("b@1").packs());
  EXPECT_TRUE(packing.packs());
  EXPECT_FALSE(BoundaryPacking{}.packs());
  EXPECT_FALSE((BoundaryPacking{{kExactBits, kExactBits}, {}}).packs());
  for (const int bits : {32, 16, 8, 4}) check_bits(bits, "x");
  for (const int bits : {-8, 0, 1, 2, 5, 12, 24, 64}) EXPECT_THROW(check_bits(bits, "x"), Error);
}

TEST(Packing, BrokenBytesAreErrors) {
  const Tensor good = pack_tensor(made({2, 40}, 1), 8);
  const auto refused = [&](std::size_t at, std::uint8_t value) {
    Tensor bad = Tensor::of<std::uint8_t>(good.shape(), good.values<std::uint8_t>());
    bad.mutable_values<std::uint8_t>()[at] = value;
    EXPECT_THROW(static_cast<void>(unpack_tensor(bad)), Error) << at;
  };
  refused(0, 0);  // magic
  refused(4, 1);  // versions
  refused(4, 3);
  refused(5, 7);          // bits
  refused(5, 32);         // bits that nobody packs to
  refused(6, 4);          // integers
  refused(6, 200);        // no dtype
  refused(7, 65);         // axes
  refused(8, 41);         // length of a row
  refused(16, 3);         // extent
  refused(23, 0x80);      // negative extent
  refused(35, 0x7f);      // scale: infinity or NaN with the rest
  refused(32, 0x01);      // a scale with more bits than there are
  refused(32 + 8, 0x80);  // a code that no finite row has
  for (const std::int64_t size : {0, 10, 31, 119}) {
    EXPECT_THROW(static_cast<void>(unpack_tensor(good.slice(0, size))), Error) << size;
  }
  EXPECT_THROW(static_cast<void>(unpack_tensor(Tensor::zeros({2, 40}))), Error);
  EXPECT_THROW(static_cast<void>(unpack_tensor({})), Error);
}

}  // namespace
}  // namespace harmonics::inline in_transport
