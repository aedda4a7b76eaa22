#include <harmonics/tensor/tensor.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harmonics::inline in_tensor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Use>
std::string error_of(ErrorCode code, const Use& use) {
  try {
    use();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Tensor, AnUndefinedOneHasNothing) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_EQ(none.size(), 0);
  EXPECT_TRUE(none.bytes().empty());
}

TEST(Tensor, HoldsValuesOfEveryCppType) {
  EXPECT_THAT(Tensor::of<float>({2}, {1.5f, 2.5f}).values<float>(), ElementsAre(1.5f, 2.5f));
  EXPECT_THAT(Tensor::of<std::int64_t>({1, 2}, {3, -4}).values<std::int64_t>(), ElementsAre(3, -4));
  EXPECT_THAT(Tensor::of<bool>({3}, {true, false, true}).values<bool>(),
              ElementsAre(true, false, true));
  EXPECT_THAT(Tensor::of<double>({}, {0.25}).values<double>(), ElementsAre(0.25));
  EXPECT_THAT(Tensor::zeros({2, 2}, DType::kInt32).values<std::int32_t>(), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(Tensor::empty({3, 5}, DType::kBFloat16).byte_size(), 30u);
  EXPECT_EQ(Tensor::empty({0, 5}).byte_size(), 0u);
}

TEST(Tensor, CopiesShareTheBytes) {
  Tensor tensor = Tensor::zeros({2});
  const Tensor copy = tensor;
  tensor.mutable_values<float>()[1] = 9;
  EXPECT_THAT(copy.values<float>(), ElementsAre(0, 9));
}

TEST(Tensor, RefusesAnotherNumberOfValues) {
  EXPECT_THAT(error_of(ErrorCode::kInvalidArgument,
                       [] {
                         (void)Tensor::of<float>({2, 2}, {1, 2, 3});
                       }),
              HasSubstr("shape {2, 2} takes 4 values, 3 were given"));
}

TEST(Tensor, RefusesAnotherTypeOrAnotherDevice) {
  EXPECT_THAT(
      error_of(ErrorCode::kInvalidArgument, [] { (void)Tensor::zeros({1}).values<double>(); }),
      HasSubstr("a tensor of float32 was read as float64"));
  const auto far = std::make_shared<Buffer>(nullptr, 4, Device{DeviceKind::kCuda, 1}, nullptr);
  const Tensor tensor({{1}, DType::kFloat32}, far);
  EXPECT_EQ(tensor.device(), (Device{DeviceKind::kCuda, 1}));
  EXPECT_THAT(error_of(ErrorCode::kFailedPrecondition, [&] { (void)tensor.values<float>(); }),
              HasSubstr("on a GPU"));
  EXPECT_THAT(error_of(ErrorCode::kFailedPrecondition,
                       [&] { (void)concat_rows(std::vector<Tensor>{tensor}); }),
              HasSubstr("on a GPU"));
}

TEST(Tensor, RefusesABufferThatIsTooSmall) {
  const BufferPtr buffer = BufferPool::shared().take(16);
  const TensorSpec spec{{4}, DType::kFloat32};
  EXPECT_EQ(Tensor(spec, buffer).size(), 4);
  EXPECT_THAT(error_of(ErrorCode::kInvalidArgument, [&] { (void)Tensor(spec, buffer, 1); }),
              HasSubstr("float32 {4} does not fit in a buffer of 16 bytes at 1"));
  EXPECT_THROW((void)Tensor(spec, buffer, 17), Error);
  EXPECT_THROW((void)Tensor(spec, nullptr), Error);
}

TEST(Tensor, RefusesSizesThatWouldOverflow) {
  // Eight bytes times 2^61 elements are 2^64 bytes, which as a 64-bit number would be none.
  EXPECT_THROW((void)Tensor::empty({std::int64_t{1} << 61}, DType::kFloat64), Error);
  EXPECT_THROW((void)Tensor::empty({kMaxElements}, DType::kFloat64), Error);
}

TEST(Tensor, SlicesShareTheBytesAndCanBeSlicedAgain) {
  Tensor tensor = Tensor::of<std::int32_t>({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const Tensor rows = tensor.slice(1, 4);
  EXPECT_EQ(rows.shape(), (Shape{3, 2}));
  EXPECT_THAT(rows.values<std::int32_t>(), ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_THAT(rows.slice(1, 2).values<std::int32_t>(), ElementsAre(4, 5));
  EXPECT_EQ(rows.slice(1, 2).offset(), 16u);
  EXPECT_EQ(rows.slice(3, 3).size(), 0);
  tensor.mutable_values<std::int32_t>()[2] = 99;
  EXPECT_EQ(rows.values<std::int32_t>()[0], 99);
}

TEST(Tensor, ASliceKeepsTheBytesAlive) {
  Tensor rows;
  {
    const Tensor tensor = Tensor::of<float>({2, 1}, {1, 2});
    rows = tensor.slice(1, 2);
  }
  const Tensor other = Tensor::zeros({2, 1});  // would take the same block, had it been given back
  EXPECT_THAT(rows.values<float>(), ElementsAre(2));
}

TEST(Tensor, RefusesRowsThatAreNotThere) {
  const Tensor tensor = Tensor::zeros({4, 2});
  EXPECT_THAT(error_of(ErrorCode::kOutOfRange, [&] { (void)tensor.slice(2, 5); }),
              HasSubstr("rows 2 to 5 are outside a tensor of shape {4, 2}"));
  EXPECT_THROW((void)tensor.slice(-1, 2), Error);
  EXPECT_THROW((void)tensor.slice(3, 2), Error);
  EXPECT_THROW((void)Tensor::zeros({}).slice(0, 0), Error);
}

TEST(Tensor, ReshapesWithoutCopying) {
  const Tensor tensor = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor view = tensor.slice(1, 2).reshaped({3, 1, 1});
  EXPECT_EQ(view.bytes().data(), tensor.bytes().data() + 12);
  EXPECT_THAT(view.values<float>(), ElementsAre(4, 5, 6));
  EXPECT_THAT(error_of(ErrorCode::kInvalidArgument, [&] { (void)tensor.reshaped({4}); }),
              HasSubstr("cannot view shape {2, 3} as {4}"));
}

TEST(Tensor, JoinsRows) {
  const Tensor all = Tensor::of<std::uint8_t>({3, 2}, {1, 2, 3, 4, 5, 6});
  const std::vector<Tensor> parts = {all.slice(2, 3), all.slice(0, 0), all.slice(0, 2)};
  const Tensor joined = concat_rows(parts);
  EXPECT_EQ(joined.shape(), (Shape{3, 2}));
  EXPECT_THAT(joined.values<std::uint8_t>(), ElementsAre(5, 6, 1, 2, 3, 4));
}

TEST(Tensor, RefusesToJoinWhatDoesNotFit) {
  const auto join = [](std::vector<Tensor> parts) {
    return error_of(ErrorCode::kInvalidArgument, [&] { (void)concat_rows(parts); });
  };
  EXPECT_THAT(join({}), HasSubstr("no tensors"));
  EXPECT_THAT(join({Tensor::zeros({})}), HasSubstr("scalars"));
  EXPECT_THAT(join({Tensor::zeros({1, 2}), Tensor::zeros({1, 3})}),
              HasSubstr("cannot join float32 {1, 2} and float32 {1, 3}"));
  EXPECT_THAT(join({Tensor::zeros({1}), Tensor::zeros({1}, DType::kInt8)}), HasSubstr("int8 {1}"));
  EXPECT_THAT(join({Tensor::zeros({1, 2}), Tensor::zeros({1})}), HasSubstr("cannot join"));
}

}  // namespace
}  // namespace harmonics::inline in_tensor
