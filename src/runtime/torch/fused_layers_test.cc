// On a GPU: the fused layers beside libtorch's, which computes the same in float32. Skipped without
// one, unless HARMONICS_REQUIRE_GPU=1.
#include "torch/fused_layers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>

#include <harmonics/runtime/devices.h>

namespace harmonics::inline in_runtime {
namespace {

class FusedLayersTest : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_available()) return;
    const char* required = std::getenv("HARMONICS_REQUIRE_GPU");
    if (required != nullptr && *required == '1') FAIL() << "no GPU answers";
    GTEST_SKIP() << "no GPU answers";
  }

  static at::Tensor made(at::IntArrayRef sizes, double mean, at::ScalarType type) {
    return (at::randn(sizes, at::device(at::kCUDA)) + mean).to(type);
  }
  static at::Tensor leaf(const at::Tensor& value) {
    return value.detach().clone().requires_grad_();
  }

  /// The largest difference, of what the reference has at most.
  static double apart(const at::Tensor& ours, const at::Tensor& theirs) {
    const at::Tensor a = ours.detach().to(at::kDouble), b = theirs.detach().to(at::kDouble);
    return ((a - b).abs().max() / b.abs().max()).item<double>();
  }

  static LayerForward fused(const std::string& type, const Attributes& attributes,
                            std::string_view activation) {
    return make_fused_forward({"layer", type, {}, attributes}, activation);
  }

  static at::Tensor call(const LayerForward& forward, std::vector<at::Tensor> inputs,
                         std::vector<at::Tensor> parameters) {
    LayerCall made;
    made.inputs = inputs;
    made.parameters = parameters;
    made.training = true;
    made.compute = inputs[0].scalar_type() == at::kFloat ? at::kBFloat16 : inputs[0].scalar_type();
    return forward(made);
  }
};

// A number of 8 (bf16) or 11 (fp16) digits is off by half of the last; sums of many are nearer.
constexpr double kShort = 1.0 / 128;

TEST_F(FusedLayersTest, BatchNormIsLibtorchs) {
  at::manual_seed(1);
  const Attributes attributes{{"eps", 1e-5}, {"momentum", 0.1}};
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    for (const std::int64_t channels : {8, 72, 256, 2048}) {
      for (const bool relu : {false, true}) {
        for (const double mean : {0.0, 40.0}) {
          const at::Tensor x =
              made({5, channels, 7, 9}, mean, type).contiguous(at::MemoryFormat::ChannelsLast);
          const at::Tensor gamma = made({channels}, 1, at::kFloat);
          const at::Tensor beta = made({channels}, 0, at::kFloat);
          const at::Tensor dy = made(x.sizes(), 0, type).contiguous(at::MemoryFormat::ChannelsLast);
          std::vector<at::Tensor> ours{leaf(x), leaf(gamma), leaf(beta),
                                       at::zeros({channels}, gamma.options()),
                                       at::ones({channels}, gamma.options())};
          std::vector<at::Tensor> theirs{leaf(x.to(at::kFloat)), leaf(gamma), leaf(beta),
                                         at::zeros({channels}, gamma.options()),
                                         at::ones({channels}, gamma.options())};
          const at::Tensor y = call(fused("batch_norm", attributes, relu ? "relu" : ""), {ours[0]},
                                    {ours[1], ours[2], ours[3], ours[4]});
          ASSERT_TRUE(y.defined());
          at::Tensor expected = at::batch_norm(theirs[0], theirs[1], theirs[2], theirs[3],
                                               theirs[4], true, 0.1, 1e-5, false);
          if (relu) expected = at::relu(expected);
          EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
          EXPECT_LT(apart(y, expected), kShort);
          torch::autograd::backward({y}, {dy});
          torch::autograd::backward({expected}, {dy.to(at::kFloat)});
          EXPECT_LT(apart(ours[0].grad(), theirs[0].grad()), kShort);
          EXPECT_LT(apart(ours[1].grad(), theirs[1].grad()), 1e-3);
          EXPECT_LT(apart(ours[2].grad(), theirs[2].grad()), 1e-3);
          EXPECT_LT(apart(ours[3], theirs[3]), 1e-4);
          EXPECT_LT(apart(ours[4], theirs[4]), 1e-4);
        }
      }
    }
  }
}

TEST_F(FusedLayersTest, LayerNormIsLibtorchs) {
  at::manual_seed(2);
  for (const auto type : {at::kBFloat16, at::kHalf, at::kFloat}) {
    for (const std::int64_t width : {8, 72, 256, 768, 1024}) {
      for (const std::int64_t rows : {1, 3, 4099}) {
        const at::Tensor x = made({rows, width}, 5, type);
        const at::Tensor gamma = made({width}, 1, at::kFloat), beta = made({width}, 0, at::kFloat);
        std::vector<at::Tensor> ours{leaf(x), leaf(gamma), leaf(beta)};
        std::vector<at::Tensor> theirs{leaf(x.to(at::kFloat)), leaf(gamma), leaf(beta)};
        const at::Tensor y =
            call(fused("layer_norm", {{"eps", 1e-5}}, ""), {ours[0]}, {ours[1], ours[2]});
        ASSERT_TRUE(y.defined());
        EXPECT_EQ(y.scalar_type(), type == at::kFloat ? at::kBFloat16 : type);
        const at::Tensor expected = at::layer_norm(theirs[0], {width}, theirs[1], theirs[2], 1e-5);
        EXPECT_LT(apart(y, expected), kShort);
        const at::Tensor dy = made(x.sizes(), 0, y.scalar_type());
        torch::autograd::backward({y}, {dy});
        torch::autograd::backward({expected}, {dy.to(at::kFloat)});
        EXPECT_EQ(ours[0].grad().scalar_type(), type);
        for (int i = 0; i < 3; ++i) {
          EXPECT_LT(apart(ours[i].grad(), theirs[i].grad()), i == 0 ? kShort : 1e-4)
              << width << " of " << rows << " rows, gradient " << i;
        }
      }
    }
  }
}

/// As a layer that multiplies calls it.
at::Tensor fused_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const std::vector<at::Tensor> parameters{weight, bias};
  LayerCall call;
  call.parameters = parameters;
  call.compute = x.scalar_type();
  return fused_linear(x, call, {.weight = 0, .bias = 1});
}

TEST_F(FusedLayersTest, LinearIsLibtorchs) {
  at::manual_seed(5);
  for (const bool gelu : {false, true}) {
    for (const std::int64_t channels : {8, 72, 3072}) {
      const at::Tensor x = made({7, 41, 64}, 0, at::kBFloat16);
      const at::Tensor weight = made({channels, 64}, 0, at::kFloat) / 8;
      std::vector<at::Tensor> ours{leaf(x), leaf(weight), leaf(made({channels}, 0, at::kFloat))};
      std::vector<at::Tensor> theirs{leaf(x.to(at::kFloat)),
                                     leaf(weight.to(at::kBFloat16).to(at::kFloat)), leaf(ours[2])};
      const at::Tensor y = gelu ? call(fused("linear", {{"bias", std::int64_t{1}}}, "gelu"),
                                       {ours[0]}, {ours[1], ours[2]})
                                : fused_product(ours[0], ours[1], ours[2]);
      ASSERT_TRUE(y.defined());
      at::Tensor expected = at::linear(theirs[0], theirs[1], theirs[2]);
      if (gelu) expected = at::gelu(expected);
      EXPECT_LT(apart(y, expected), kShort);
      const at::Tensor dy = made(y.sizes(), 0, at::kBFloat16);
      torch::autograd::backward({y}, {dy});
      torch::autograd::backward({expected}, {dy.to(at::kFloat)});
      for (int i = 0; i < 3; ++i) {
        EXPECT_LT(apart(ours[i].grad(), theirs[i].grad()), kShort)
            << channels << " channels, gradient " << i;
      }
    }
  }
}

TEST_F(FusedLayersTest, SumAndReluAreLibtorchs) {
  at::manual_seed(3);
  const at::Tensor a = made({3, 16, 5, 5}, 0, at::kBFloat16),
                   b = made({3, 16, 5, 5}, 0, at::kBFloat16);
  std::vector<at::Tensor> ours{leaf(a), leaf(b)}, theirs{leaf(a), leaf(b)};
  const at::Tensor y = call(fused("add", {}, "relu"), ours, {});
  ASSERT_TRUE(y.defined());
  const at::Tensor expected = at::relu(theirs[0] + theirs[1]);
  EXPECT_TRUE(y.equal(expected));
  const at::Tensor dy = made(a.sizes(), 0, at::kBFloat16);
  torch::autograd::backward({y}, {dy});
  torch::autograd::backward({expected}, {dy});
  EXPECT_TRUE(ours[0].grad().equal(theirs[0].grad()));
  EXPECT_TRUE(ours[1].grad().equal(theirs[1].grad()));
}

TEST_F(FusedLayersTest, ARunRepeatsItsBits) {
  at::manual_seed(4);
  const at::Tensor x =
      made({64, 64, 28, 28}, 1, at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor gamma = made({64}, 1, at::kFloat), beta = made({64}, 0, at::kFloat);
  const auto gradients = [&] {
    const at::Tensor input = leaf(x), scale = leaf(gamma);
    const at::Tensor y =
        call(fused("batch_norm", {{"eps", 1e-5}, {"momentum", 0.1}}, "relu"), {input},
             {scale, leaf(beta), at::zeros_like(gamma), at::ones_like(gamma)});
    torch::autograd::backward({y}, {y.detach()});
    return std::vector<at::Tensor>{y.detach(), input.grad(), scale.grad()};
  };
  const auto first = gradients();
  for (int i = 0; i < 5; ++i) {
    const auto again = gradients();
    for (std::size_t k = 0; k < first.size(); ++k) EXPECT_TRUE(again[k].equal(first[k]));
  }
}

TEST_F(FusedLayersTest, WhatCannotBeFusedIsLeftToLibtorch) {
  const at::Tensor odd =
      made({3, 12, 4, 4}, 0, at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor p = at::ones({12}, at::device(at::kCUDA));
  EXPECT_FALSE(
      call(fused("batch_norm", {{"eps", 1e-5}, {"momentum", 0.1}}, ""), {odd}, {p, p, p, p})
          .defined());
  EXPECT_FALSE(call(fused("layer_norm", {{"eps", 1e-5}}, ""), {made({4, 12}, 0, at::kHalf)}, {p, p})
                   .defined());
  EXPECT_FALSE(fused("conv2d", {}, "relu"));
}

}  // namespace
}  // namespace harmonics::inline in_runtime
