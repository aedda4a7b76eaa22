#include <harmonics/tensor/dtype.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>

namespace harmonics::inline in_tensor {
namespace {

TEST(DType, NamesAndSizesGoBothWays) {
  const std::vector<std::pair<std::string_view, std::size_t>> expected = {
      {"float32", 4}, {"float64", 8}, {"bfloat16", 2}, {"float16", 2}, {"int64", 8},
      {"int32", 4},   {"int8", 1},    {"uint8", 1},    {"bool", 1}};
  ASSERT_EQ(expected.size(), static_cast<std::size_t>(kDTypeCount));
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_name(dtype), expected[i].first);
    EXPECT_EQ(dtype_size(dtype), expected[i].second);
    EXPECT_EQ(dtype_from_name(expected[i].first), dtype);
    EXPECT_EQ(is_floating(dtype), expected[i].first.find("float") != std::string_view::npos);
  }
  EXPECT_EQ(dtype_from_name("float"), std::nullopt);
}

TEST(DType, MatchesTheSizesOfCppTypes) {
  EXPECT_EQ(dtype_size(DTypeOf<float>::value), sizeof(float));
  EXPECT_EQ(dtype_size(DTypeOf<double>::value), sizeof(double));
  EXPECT_EQ(dtype_size(DTypeOf<std::int64_t>::value), sizeof(std::int64_t));
  EXPECT_EQ(dtype_size(DTypeOf<std::int32_t>::value), sizeof(std::int32_t));
  EXPECT_EQ(dtype_size(DTypeOf<std::int8_t>::value), sizeof(std::int8_t));
  EXPECT_EQ(dtype_size(DTypeOf<std::uint8_t>::value), sizeof(std::uint8_t));
  EXPECT_EQ(dtype_size(DTypeOf<bool>::value), sizeof(bool));
}

TEST(Shape, CountsElementsUpToTheLimit) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 224, 224}), 150'528);
  EXPECT_EQ(element_count({5, 0, 7}), 0);
  EXPECT_EQ(element_count({kMaxElements}), kMaxElements);
  EXPECT_EQ(element_count({kMaxElements / 2, 2}), kMaxElements);
  EXPECT_THROW((void)element_count({kMaxElements / 2 + 1, 2}), Error);
  EXPECT_THROW((void)element_count({1 << 30, 1 << 30, 1 << 30}), Error);
  EXPECT_THROW((void)element_count({kMaxElements + 1}), Error);
}

TEST(Shape, ANegativeAxisIsAnErrorThatShowsTheShape) {
  try {
    (void)element_count({3, -1});
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("{3, -1}"));
  }
}

TEST(Shape, ReadsLikeTheGraphText) {
  EXPECT_EQ(shape_text({}), "{}");
  EXPECT_EQ(shape_text({3, 224, 224}), "{3, 224, 224}");
  EXPECT_EQ(spec_text({{8}, DType::kBFloat16}), "bfloat16 {8}");
}

}  // namespace
}  // namespace harmonics::inline in_tensor
