#include <harmonics/data/idx_producer.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

namespace harmonics::inline in_data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::string big_endian(T value) {
  const auto* bytes = reinterpret_cast<const char*>(&value);
  return {std::make_reverse_iterator(bytes + sizeof(T)), std::make_reverse_iterator(bytes)};
}

std::string header(unsigned char type, const std::vector<std::uint32_t>& axes) {
  std::string bytes("\0\0", 2);
  bytes += static_cast<char>(type);
  bytes += static_cast<char>(axes.size());
  for (const std::uint32_t axis : axes) bytes += big_endian(axis);
  return bytes;
}

template <typename T>
std::string file(unsigned char type, const std::vector<std::uint32_t>& axes,
                 std::vector<T> values) {
  std::string bytes = header(type, axes);
  for (const T value : values) bytes += big_endian(value);
  return bytes;
}

class IdxProducerTest : public ::testing::Test {
 protected:
  IdxProducer open(const std::string& bytes, const IdxOptions& options = {}) {
    return IdxProducer(folder_.write("data.idx", bytes), options);
  }
  std::string error(const std::string& bytes, const IdxOptions& options = {}) {
    return error_of([&] {
      auto producer = open(bytes, options);
      while (producer.next()) {
      }
    });
  }
  template <typename To>
  std::vector<To> values(const std::string& bytes, const IdxOptions& options = {}) {
    auto producer = open(bytes, options);
    std::vector<To> out;
    while (const auto sample = producer.next()) {
      out.insert(out.end(), sample->values<To>().begin(), sample->values<To>().end());
    }
    return out;
  }

  TemporaryFolder folder_;
};

TEST_F(IdxProducerTest, ImagesAndLabels) {
  auto images = open(file<std::uint8_t>(0x08, {2, 1, 3}, {0, 128, 255, 1, 2, 3}));
  EXPECT_EQ(images.row_count(), 2);
  EXPECT_EQ(images.sample_spec(), (TensorSpec{{1, 3}, DType::kUInt8}));
  EXPECT_THAT(images.next()->values<std::uint8_t>(), ElementsAre(0, 128, 255));
  auto labels = open(file<std::uint8_t>(0x08, {3}, {7, 2, 1}), {DType::kInt64});
  EXPECT_EQ(labels.sample_spec(), (TensorSpec{{1}, DType::kInt64}));
  labels.skip(1);
  EXPECT_THAT(labels.next()->values<std::int64_t>(), ElementsAre(2));
}

TEST_F(IdxProducerTest, EveryElementType) {
  EXPECT_THAT(values<std::int8_t>(file<std::int8_t>(0x09, {2}, {-128, 5})), ElementsAre(-128, 5));
  EXPECT_THAT(values<std::int32_t>(file<std::int16_t>(0x0B, {2}, {-32768, 258})),
              ElementsAre(-32768, 258));
  EXPECT_THAT(values<std::int32_t>(file<std::int32_t>(0x0C, {2}, {INT32_MIN, 16909060})),
              ElementsAre(INT32_MIN, 16909060));
  EXPECT_THAT(values<float>(file<float>(0x0D, {2}, {1.5F, -0.1F})), ElementsAre(1.5F, -0.1F));
  EXPECT_THAT(values<double>(file<double>(0x0E, {2}, {1e300, -0.1})), ElementsAre(1e300, -0.1));
}

TEST_F(IdxProducerTest, ScaleAndDType) {
  const std::string bytes = file<std::uint8_t>(0x08, {2}, {0, 255});
  auto scaled = open(bytes, {std::nullopt, 1.0 / 255});
  EXPECT_EQ(scaled.sample_spec().dtype, DType::kFloat32);
  EXPECT_THAT(values<float>(bytes, {std::nullopt, 1.0 / 255}), ElementsAre(0.0F, 1.0F));
  EXPECT_THAT(values<double>(bytes, {DType::kFloat64, 2}), ElementsAre(0.0, 510.0));
  EXPECT_THAT(values<std::int64_t>(file<double>(0x0E, {2}, {-3, 9e15}), {DType::kInt64}),
              ElementsAre(-3, 9000000000000000));
  EXPECT_THAT(error(bytes, {DType::kInt64, 0.5}), HasSubstr("needs a float dtype"));
  EXPECT_THAT(error(bytes, {DType::kBool}), HasSubstr("cannot be read as bool"));
}

TEST_F(IdxProducerTest, ValuesThatDoNotFit) {
  EXPECT_THAT(error(file<std::uint8_t>(0x08, {2}, {0, 128}), {DType::kInt8}),
              HasSubstr("data.idx' sample 1: a value is no int8"));
  EXPECT_NE(error(file<std::int8_t>(0x09, {1}, {-1}), {DType::kUInt8}), "no error");
  EXPECT_NE(error(file<float>(0x0D, {1}, {0.5F}), {DType::kInt64}), "no error");
  EXPECT_NE(error(file<float>(0x0D, {1}, {9.3e18F}), {DType::kInt64}), "no error");
  EXPECT_NE(
      error(file<double>(0x0E, {1}, {std::bit_cast<double>(0x7ff8000000000000)}), {DType::kInt64}),
      "");
}

TEST_F(IdxProducerTest, ForeignAndTruncatedFiles) {
  const std::string good = file<std::int32_t>(0x0C, {2, 3}, {1, 2, 3, 4, 5, 6});
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_NE(error(good.substr(0, length)), "no error") << length;
  }
  EXPECT_THAT(error(good + "x"), HasSubstr("truncated or foreign"));
  EXPECT_THAT(error("1,2,3\n"), HasSubstr("is not an IDX file: it begins with 31 2c 32"));
  EXPECT_THAT(error("\x1f\x8b\x08 gzip"), HasSubstr("unpack it first"));
  EXPECT_THAT(error(header(0x0A, {1})), HasSubstr("is not an IDX file"));
  EXPECT_THAT(error(header(0x08, {})), HasSubstr("0 axes"));
  // Lengths whose product is beyond any file are refused before anything is allocated.
  EXPECT_NE(error(header(0x0E, {0xffffffff, 0xffffffff})), "no error");
  EXPECT_THAT(error(header(0x0E, {0xffffffff})), HasSubstr("truncated or foreign"));
  EXPECT_NE(error_of([&] { IdxProducer(folder_.path() / "none.idx"); }), "no error");
}

TEST_F(IdxProducerTest, AxisLimit) {
  const std::vector<std::uint32_t> most(kMaxIdxAxes, 1);
  EXPECT_EQ(open(file<std::uint8_t>(0x08, most, {9})).sample_spec().shape.size(), kMaxIdxAxes - 1);
  const std::vector<std::uint32_t> more(kMaxIdxAxes + 1, 1);
  EXPECT_THAT(error(file<std::uint8_t>(0x08, more, {9})), HasSubstr("9 axes; 1 to 8 can be read"));
}

}  // namespace
}  // namespace harmonics::inline in_data
