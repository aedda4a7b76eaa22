// The group of the proofs against libsodium's, and against the test vectors of RFC 9496.
#include <gtest/gtest.h>
#include <sodium.h>

#include <harmonics/base/random.h>
#include <harmonics/custody/hex.h>

#include "msm.h"

namespace harmonics::zk {
namespace {

PointBytes bytes_from(std::string_view digits) {
  PointBytes bytes;
  EXPECT_TRUE(from_hex(digits, bytes));
  return bytes;
}

unsigned char* raw(PointBytes& bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

PointBytes random_point() {
  PointBytes bytes;
  crypto_core_ristretto255_random(raw(bytes));
  return bytes;
}

Point decoded(const PointBytes& bytes) {
  const auto point = decode_point(bytes);
  EXPECT_TRUE(point.has_value());
  return point.value_or(identity());
}

// RFC 9496, appendix A.1: small multiples of the generator.
TEST(ZkGroup, MultiplesOfTheGeneratorAreThoseOfTheStandard) {
  const std::vector<std::string_view> multiples = {
      "0000000000000000000000000000000000000000000000000000000000000000",
      "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76",
      "6a493210f7499cd17fecb510ae0cea23a110e8d5b901f8acadd3095c73a3b919",
      "94741f5d5d52755ece4f23f044ee27d5d1ea1e2bd196b462166b16152a9d0259"};
  const Point base = decoded(bytes_from(multiples[1]));
  Point sum = identity();
  for (const std::string_view digits : multiples) {
    EXPECT_EQ(to_hex(encode_point(sum)), digits);
    sum = add(sum, base);
  }
}

// RFC 9496, appendix A.2: encodings that must be refused, one of each kind.
TEST(ZkGroup, BadEncodingsAreRefused) {
  for (const std::string_view digits :
       {"00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "f3ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ed57ffd8c914fb201471d1c3d245ce3c746fcbe63a3679d51b6a516ebebe0e20",
        "26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371",
        "3eb858e78f5a7254d8c9731174a94f76755fd3941c0ac93735c07ba14579630e"}) {
    const PointBytes bytes = bytes_from(digits);
    EXPECT_FALSE(decode_point(bytes)) << digits;
    EXPECT_EQ(crypto_core_ristretto255_is_valid_point(
                  reinterpret_cast<const unsigned char*>(bytes.data())),
              0);
  }
}

TEST(ZkGroup, RandomBytesAreRefusedExactlyWhereLibsodiumRefusesThem) {
  Random random(3, "encodings");
  int valid = 0;
  for (int i = 0; i < 2000; ++i) {
    PointBytes bytes;
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
    bytes[0] &= std::byte{0xfe};
    bytes[31] &= std::byte{0x7f};
    const bool expected = crypto_core_ristretto255_is_valid_point(raw(bytes)) == 1;
    const auto point = decode_point(bytes);
    ASSERT_EQ(point.has_value(), expected) << to_hex(bytes);
    if (!point) continue;
    ++valid;
    EXPECT_EQ(encode_point(*point), bytes);
  }
  EXPECT_GT(valid, 100);
}

TEST(ZkGroup, SumsAndDifferencesAreLibsodiums) {
  for (int i = 0; i < 200; ++i) {
    PointBytes a = random_point();
    PointBytes b = random_point();
    PointBytes expected;
    ASSERT_EQ(crypto_core_ristretto255_add(raw(expected), raw(a), raw(b)), 0);
    const Point pa = decoded(a);
    const Point pb = decoded(b);
    EXPECT_EQ(encode_point(add(pa, pb)), expected);
    EXPECT_EQ(encode_point(add(pa, affine(pb))), expected);
    EXPECT_TRUE(is_same(add(pa, pb), add(pb, pa)));
    EXPECT_FALSE(is_same(pa, pb));
    ASSERT_EQ(crypto_core_ristretto255_sub(raw(expected), raw(a), raw(b)), 0);
    EXPECT_EQ(encode_point(subtract(pa, affine(pb))), expected);
    EXPECT_EQ(encode_point(add(pa, negative(pb))), expected);
    ASSERT_EQ(crypto_core_ristretto255_add(raw(expected), raw(a), raw(a)), 0);
    EXPECT_EQ(encode_point(twice(pa)), expected);
    EXPECT_EQ(encode_point(add(pa, pa)), expected);
  }
}

TEST(ZkGroup, AddingTheNegativeOrNothing) {
  const Point p = decoded(random_point());
  EXPECT_TRUE(is_same(add(p, negative(p)), identity()));
  EXPECT_TRUE(is_same(subtract(p, affine(p)), identity()));
  EXPECT_TRUE(is_same(add(p, identity()), p));
  EXPECT_TRUE(is_same(twice(identity()), identity()));
}

TEST(ZkGroup, ManyPointsArePreparedAsOneByOne) {
  std::vector<Point> points;
  for (int i = 0; i < 20; ++i) points.push_back(twice(decoded(random_point())));
  const std::vector<AffinePoint> many = affine(points);
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(encode_point(add(identity(), many[i])), encode_point(points[i]));
    EXPECT_EQ(encode_point(add(identity(), affine(points[i]))), encode_point(points[i]));
  }
}

// Sums of libsodium's products, point by point.
Point slow_sum(const Scalars& scalars, const std::vector<PointBytes>& points) {
  Point sum = identity();
  for (std::size_t i = 0; i < scalars.size(); ++i) sum = add(sum, multiply(scalars[i], points[i]));
  return sum;
}

TEST(ZkGroup, SumsOfProductsAreLibsodiums) {
  for (const std::size_t count : {0u, 1u, 2u, 7u, 64u, 300u}) {
    std::vector<PointBytes> encoded;
    std::vector<AffinePoint> points;
    for (std::size_t i = 0; i < count; ++i) {
      encoded.push_back(random_point());
      points.push_back(affine(decoded(encoded.back())));
    }
    Scalars scalars = random_scalars(count);
    // The edges: 0, 1, the largest.
    if (count > 2) {
      scalars[0] = {};
      scalars[1] = scalar_of(1);
      scalars[2] = scalar_of(-1);
    }
    EXPECT_TRUE(is_same(multi_multiply(scalars, points), slow_sum(scalars, encoded))) << count;
  }
}

TEST(ZkGroup, SumsOfSmallProductsAreLibsodiums) {
  Random random(4, "small");
  const std::size_t count = 70;
  std::vector<PointBytes> encoded;
  std::vector<AffinePoint> points;
  for (std::size_t i = 0; i < count; ++i) {
    encoded.push_back(random_point());
    points.push_back(affine(decoded(encoded.back())));
  }
  std::vector<std::int8_t> bytes(count);
  for (auto& value : bytes) value = static_cast<std::int8_t>(random.below(256));
  bytes[0] = -128;
  bytes[1] = 127;
  bytes[2] = 0;
  Scalars scalars;
  for (const std::int8_t value : bytes) scalars.push_back(scalar_of(value));
  EXPECT_TRUE(is_same(multi_multiply(bytes, points), slow_sum(scalars, encoded)));
  for (int bits = 1; bits <= 31; ++bits) {
    const std::int64_t most = std::min((std::int64_t{1} << bits), std::int64_t{INT32_MAX});
    std::vector<std::int32_t> numbers(count);
    scalars.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const auto range = static_cast<std::uint64_t>(2 * most + 1);
      numbers[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(random.below(range)) - most);
      if (i == 0) numbers[i] = static_cast<std::int32_t>(most);
      if (i == 1) numbers[i] = static_cast<std::int32_t>(-most);
      scalars.push_back(scalar_of(numbers[i]));
    }
    EXPECT_TRUE(is_same(multi_multiply(numbers, points, bits), slow_sum(scalars, encoded))) << bits;
  }
}

TEST(ZkScalar, ColumnSumsAreSumsOfProducts) {
  Random random(5, "sums");
  const Scalars weights = random_scalars(40);
  ColumnSums sums(6);
  Scalars expected(6);
  for (const Scalar& weight : weights) {
    std::vector<std::int32_t> row(6);
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = i == 0 ? INT32_MIN : static_cast<std::int32_t>(random());
      expected[i] = expected[i] + weight * scalar_of(row[i]);
    }
    sums.add(weight, std::span<const std::int32_t>(row));
  }
  EXPECT_EQ(sums.finish(), expected);
}

TEST(ZkScalar, OnlyNumbersBelowTheOrderAreCanonical) {
  Scalar order;
  PointBytes bytes = bytes_from("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
  std::memcpy(order.bytes.data(), bytes.data(), 32);
  EXPECT_FALSE(is_canonical(order));
  --order.bytes[0];
  EXPECT_TRUE(is_canonical(order));
  EXPECT_EQ(order, scalar_of(-1));
  order.bytes.fill(0xff);
  EXPECT_FALSE(is_canonical(order));
  EXPECT_TRUE(is_canonical({}));
}

TEST(ZkScalar, ExpansionDoesNotDependOnHowManyAreAsked) {
  const Digest seed = sha256(bytes_of("seed"));
  const Scalars many = expanded(seed, 200);
  const Scalars few = expanded(seed, 65);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  EXPECT_NE(many[0], many[64]);
  EXPECT_NE(expanded(sha256(bytes_of("other")), 1)[0], many[0]);
}

TEST(ZkGenerators, AreDistinctPointsThatNeverDrift) {
  const Generators& g = generators(100);
  EXPECT_EQ(g.row.size(), 128u);
  EXPECT_EQ(to_hex(g.blinding_bytes),
            "4e9af18da105f0f6106e31a9c376bb40644712987239febd4031561813bc9862");
  EXPECT_EQ(to_hex(encode_point(add(identity(), g.row[0]))),
            "ecd47d290c127f2839537f6d14a11d89cce11fc2c9c8dc80e22bf81b4e28715c");
  EXPECT_NE(g.blinding_bytes, g.product_bytes);
  EXPECT_EQ(&generators(128), &g);
  // A larger set begins with the smaller one.
  EXPECT_EQ(encode_point(add(identity(), generators(200).row[99])),
            encode_point(add(identity(), g.row[99])));
  EXPECT_ANY_THROW((void)generators(kMaxZkColumns + 1));
}

}  // namespace
}  // namespace harmonics::zk
