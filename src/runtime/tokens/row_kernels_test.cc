#include "row_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>

namespace harmonics::inline in_runtime {
namespace {

std::vector<float> drawn(std::size_t count, std::string_view name) {
  Random random(7, name);
  std::vector<float> values(count);
  for (float& value : values) value = random.normal();
  return values;
}

std::vector<float> products_of(const std::vector<float>& x, const std::vector<float>& w,
                               std::size_t length) {
  const std::size_t rows = x.size() / length, outs = w.size() / length;
  std::vector<float> y(rows * outs);
  products({x.data(), rows, length}, {w.data(), outs, length}, length, y.data(), outs);
  return y;
}

class EveryKernel : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      choose_kernel(GetParam());
    } catch (const Error&) {
      GTEST_SKIP() << "this machine has no " << GetParam();
    }
  }
  void TearDown() override { choose_kernel(nullptr); }
};

TEST_P(EveryKernel, ARowsBitsDoNotDependOnTheOtherRows) {
  for (const std::size_t length : {1u, 15u, 16u, 17u, 64u, 100u, 576u}) {
    const std::vector<float> x = drawn(9 * length, "x"), w = drawn(21 * length, "w");
    const std::vector<float> all = products_of(x, w, length);
    for (std::size_t first = 0; first < 9; ++first) {
      for (std::size_t count = 1; first + count <= 9; ++count) {
        const std::vector<float> some(
            x.begin() + static_cast<std::ptrdiff_t>(first * length),
            x.begin() + static_cast<std::ptrdiff_t>((first + count) * length));
        const std::vector<float> own = products_of(some, w, length);
        ASSERT_EQ(std::memcmp(own.data(), all.data() + first * 21, own.size() * 4), 0)
            << length << " " << first << " " << count;
      }
    }
  }
}

TEST_P(EveryKernel, GivesTheBitsOfPlainLoops) {
  for (const std::size_t length : {1u, 3u, 16u, 33u, 64u, 576u, 1000u}) {
    const std::vector<float> x = drawn(5 * length, "x"), w = drawn(13 * length, "w");
    const std::vector<float> own = products_of(x, w, length);
    choose_kernel("plain");
    const std::vector<float> plain = products_of(x, w, length);
    choose_kernel(GetParam());
    ASSERT_EQ(std::memcmp(own.data(), plain.data(), own.size() * 4), 0) << length;
    double exact = 0;
    for (std::size_t i = 0; i < length; ++i) exact += static_cast<double>(x[i]) * w[i];
    EXPECT_NEAR(own[0], exact, 1e-5 * std::sqrt(static_cast<double>(length)));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryKernel, testing::Values("plain", "avx2", "avx512"));

TEST(RowFunctions, AreWithinAFewUnitsOfTheLibrarys) {
  std::vector<float> x;
  for (int i = -2000; i <= 2000; ++i) x.push_back(static_cast<float>(i) * 0.01f);
  const auto check = [&](void (*apply)(float*, std::size_t), double (*exact)(double)) {
    std::vector<float> y = x;
    apply(y.data(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = exact(x[i]);
      EXPECT_NEAR(y[i], want, 4e-7 * std::max(1.0, std::abs(want))) << x[i];
    }
  };
  check(apply_silu, [](double v) { return v / (1 + std::exp(-v)); });
  check(apply_sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); });
  check(apply_tanh, [](double v) { return std::tanh(v); });
  check(apply_gelu, [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); });
  check(apply_gelu_tanh, [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  });
  check(apply_relu, [](double v) { return v > 0 ? v : 0; });
}

TEST(RowFunctions, SoftmaxSumsToOneAndForgetsWhatIsFarBelow) {
  std::vector<float> x = drawn(100, "softmax");
  x[3] = -1000;
  std::vector<float> y = x;
  softmax(y.data(), y.size());
  double sum = 0, exact = 0;
  for (const float value : x) exact += std::exp(static_cast<double>(value));
  for (std::size_t i = 0; i < y.size(); ++i) {
    sum += y[i];
    EXPECT_NEAR(y[i], std::exp(static_cast<double>(x[i])) / exact, 1e-7);
  }
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_EQ(y[3], 0);
}

TEST(RowFunctions, NormsAreTheirFormulas) {
  const std::vector<float> x = drawn(77, "x"), weight = drawn(77, "weight"),
                           bias = drawn(77, "bias");
  std::vector<float> y(77);
  double squares = 0, mean = 0, variance = 0;
  for (const float v : x) squares += static_cast<double>(v) * v / 77, mean += v / 77.0;
  for (const float v : x) variance += (v - mean) * (v - mean) / 77;
  rms_norm(x.data(), {weight.data(), nullptr, 1e-5f}, 77, y.data());
  for (std::size_t i = 0; i < 77; ++i) {
    EXPECT_NEAR(y[i], weight[i] * x[i] / std::sqrt(squares + 1e-5), 1e-5);
  }
  layer_norm(x.data(), {weight.data(), bias.data(), 1e-5f}, 77, y.data());
  for (std::size_t i = 0; i < 77; ++i) {
    EXPECT_NEAR(y[i], weight[i] * (x[i] - mean) / std::sqrt(variance + 1e-5) + bias[i], 1e-5);
  }
}

}  // namespace
}  // namespace harmonics::inline in_runtime
