#include <harmonics/tensor/torch.h>

#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <cstdlib>
#include <cstring>

namespace harmonics::inline in_tensor {
namespace {

TEST(TensorTorch, SharesBytesWithTorchInBothDirections) {
  Tensor ours = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  at::Tensor theirs = to_torch(ours);
  EXPECT_EQ(theirs.data_ptr(), static_cast<const void*>(ours.bytes().data()));
  EXPECT_EQ(theirs.sizes().vec(), ours.shape());
  theirs[1][2] = 60;
  EXPECT_EQ(ours.values<float>()[5], 60);

  const Tensor back = from_torch(theirs);
  EXPECT_EQ(back.bytes().data(), ours.bytes().data());
  EXPECT_EQ(back.spec(), ours.spec());
}

TEST(TensorTorch, ConvertsEveryDType) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor ours = Tensor::zeros({3}, dtype);
    const at::Tensor theirs = to_torch(ours);
    EXPECT_EQ(theirs.element_size(), static_cast<std::int64_t>(dtype_size(dtype)));
    EXPECT_EQ(theirs.is_floating_point(), is_floating(dtype));
    EXPECT_EQ(from_torch(theirs).spec(), ours.spec()) << dtype_name(dtype);
  }
}

TEST(TensorTorch, ConvertsScalarsSlicesAndNothing) {
  EXPECT_EQ(to_torch(Tensor::of<double>({}, {2.5})).item<double>(), 2.5);
  const Tensor tensor = Tensor::of<std::int64_t>({3, 2}, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(to_torch(tensor.slice(2, 3)).sum().item<std::int64_t>(), 9);
  EXPECT_EQ(from_torch(to_torch(tensor.slice(1, 1))).shape(), (Shape{0, 2}));
  EXPECT_EQ(from_torch(torch::empty({0, 4})).shape(), (Shape{0, 4}));
  EXPECT_FALSE(to_torch(Tensor()).defined());
  EXPECT_FALSE(from_torch(at::Tensor()).defined());
}

TEST(TensorTorch, TheBytesLiveAsLongAsTorchHoldsThem) {
  at::Tensor theirs;
  std::weak_ptr<Buffer> buffer;
  {
    const Tensor ours = Tensor::of<float>({2}, {1, 2});
    buffer = ours.buffer();
    theirs = to_torch(ours);
  }
  ASSERT_FALSE(buffer.expired());
  at::Tensor view = theirs.narrow(0, 1, 1);
  theirs.reset();
  EXPECT_FALSE(buffer.expired()) << "a view of the torch tensor still uses the bytes";
  EXPECT_EQ(view.item<float>(), 2);
  view.reset();
  EXPECT_TRUE(buffer.expired());
}

TEST(TensorTorch, TheBytesLiveAsLongAsWeHoldThem) {
  bool released = false;
  Tensor ours;
  {
    auto* memory = static_cast<float*>(std::malloc(8));
    memory[0] = 3;
    memory[1] = 4;
    const at::Tensor theirs = torch::from_blob(memory, {2}, [&](void* freed) {
      std::free(freed);
      released = true;
    });
    ours = from_torch(theirs);
  }
  EXPECT_FALSE(released);
  EXPECT_EQ(ours.values<float>()[1], 4);
  ours = Tensor();
  EXPECT_TRUE(released);
}

TEST(TensorTorch, MakesStridedTensorsContiguousFirst) {
  const at::Tensor theirs = torch::arange(6, torch::kFloat32).reshape({2, 3}).t();
  const Tensor ours = from_torch(theirs);
  EXPECT_EQ(ours.shape(), (Shape{3, 2}));
  const float expected[] = {0, 3, 1, 4, 2, 5};
  EXPECT_EQ(std::memcmp(ours.bytes().data(), expected, sizeof expected), 0);
}

TEST(TensorTorch, TakesParametersWithoutTheirHistory) {
  const at::Tensor parameter = torch::ones({2}, torch::requires_grad());
  EXPECT_EQ(from_torch(parameter).bytes().data(), parameter.data_ptr());
}

TEST(TensorTorch, RefusesWhatHasNoCounterpart) {
  EXPECT_THROW((void)from_torch(torch::zeros({1}, torch::kComplexFloat)), Error);
  EXPECT_THROW((void)from_torch(torch::zeros({2, 2}).to_sparse()), Error);
  EXPECT_THROW((void)from_torch(torch::zeros({1}, torch::kMeta)), Error);
}

TEST(TensorTorch, CrossesToTheGpuAndBack) {
  if (!torch::cuda::is_available()) {
    const char* required = std::getenv("HARMONICS_REQUIRE_GPU");
    ASSERT_FALSE(required != nullptr && std::strcmp(required, "1") == 0) << "no CUDA device";
    GTEST_SKIP() << "no CUDA device";
  }
  const at::Tensor theirs = torch::arange(4, torch::device(torch::kCUDA).dtype(torch::kFloat32));
  const Tensor ours = from_torch(theirs);
  EXPECT_EQ(ours.device(), (Device{DeviceKind::kCuda, 0}));
  EXPECT_EQ(static_cast<const void*>(ours.bytes().data()), theirs.data_ptr());
  EXPECT_THROW((void)ours.values<float>(), Error);
  EXPECT_TRUE(torch::equal(to_torch(ours).cpu(), theirs.cpu()));
}

}  // namespace
}  // namespace harmonics::inline in_tensor
