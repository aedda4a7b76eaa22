// Copies of parameters in 16 bits: made anew after a change, where they were, and learning in 32.
#include "torch/short_copies.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace harmonics::inline in_runtime {
namespace {

at::Tensor parameter_of(at::IntArrayRef sizes) {
  at::Tensor made = at::rand(sizes);
  made.set_requires_grad(true);
  return made;
}

TEST(ShortCopies, AreRoundedAgainAfterAChangeWhereTheyWere) {
  std::vector<at::Tensor> parameters{parameter_of({3, 5}), parameter_of({4}),
                                     parameter_of({8, 2, 3, 3})};
  ShortCopies copies;
  EXPECT_TRUE(copies.empty());
  copies.keep(0, at::kBFloat16);
  copies.keep(2, at::kBFloat16);
  copies.refresh(parameters);
  EXPECT_FALSE(copies.of(1, parameters[1]).defined());
  const at::Tensor matrix = copies.of(0, parameters[0]), image = copies.of(2, parameters[2]);
  EXPECT_TRUE(at::equal(matrix, parameters[0].to(at::kBFloat16)));
  EXPECT_TRUE(at::equal(image, parameters[2].to(at::kBFloat16)));
  EXPECT_TRUE(image.is_contiguous(at::MemoryFormat::ChannelsLast));
  {
    const at::NoGradGuard no_grad;
    parameters[0].add_(1);
    copies.refresh(parameters);
    EXPECT_FALSE(at::equal(matrix, parameters[0].to(at::kBFloat16))) << "nobody said so";
    copies.outdate();
    copies.refresh(parameters);
    EXPECT_TRUE(at::equal(matrix, parameters[0].to(at::kBFloat16)));
    EXPECT_FALSE(copies.of(0, parameters[0]).requires_grad());
  }
}

TEST(ShortCopies, LearnWhatACastParameterLearns) {
  std::vector<at::Tensor> parameters{parameter_of({6, 5}), parameter_of({8, 2, 3, 3})};
  ShortCopies copies;
  copies.keep(0, at::kBFloat16);
  copies.keep(1, at::kBFloat16);
  copies.refresh(parameters);
  const at::Tensor rows = at::rand({7, 5}).to(at::kBFloat16);
  const at::Tensor images = at::rand({2, 2, 9, 9}).to(at::kBFloat16);
  const auto gradients = [&](const at::Tensor& matrix, const at::Tensor& kernel) {
    for (at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
    torch::autograd::backward({at::linear(rows, matrix).sum() + at::conv2d(images, kernel).sum()},
                              {at::ones({}, at::kBFloat16)});
    return std::vector<at::Tensor>{parameters[0].grad(), parameters[1].grad()};
  };
  const auto cast =
      gradients(parameters[0].to(at::kBFloat16),
                parameters[1].to(at::kBFloat16, false, false, at::MemoryFormat::ChannelsLast));
  const auto shared = gradients(copies.of(0, parameters[0]), copies.of(1, parameters[1]));
  for (std::size_t i = 0; i < cast.size(); ++i) {
    EXPECT_EQ(shared[i].scalar_type(), at::kFloat);
    EXPECT_TRUE(shared[i].is_contiguous());
    EXPECT_TRUE(at::equal(shared[i], cast[i]));
  }
}

}  // namespace
}  // namespace harmonics::inline in_runtime
