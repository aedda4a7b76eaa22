// Every kernel gives the same bits on every instruction set that this machine runs, and those that
// docs/formats/reproducible.md states.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <harmonics/base/random.h>

#include <error_testing.h>

#include "exact/exact_kernels.h"
#include "exact/exact_rate.h"

namespace harmonics::inline in_runtime {
namespace {

using Floats = std::vector<float>;

Floats drawn(std::size_t count, std::uint64_t seed) {
  Floats out(count);
  Random random(seed, "exact");
  for (float& value : out) value = random.normal();
  return out;
}

void expect_same_bits(const Floats& a, const Floats& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(a[i]), std::bit_cast<std::uint32_t>(b[i]))
        << what << " at " << i << ": " << a[i] << " and " << b[i];
  }
}

/// All that `run` leaves on each instruction set is what it leaves on the first.
void expect_same_everywhere(const std::function<Floats(const ExactKernels&)>& run) {
  const Floats first = run(exact_kernels("scalar"));
  for (const std::string& name : exact_kernel_names()) {
    expect_same_bits(first, run(exact_kernels(name)), name);
  }
}

TEST(ExactKernels, AProductIsOneChainPerElement) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                {7, 33, 5},
                                {13, 5, 600},
                                {61, 530, 257},
                                {24, 64, 32}}) {
    const Floats a = drawn(static_cast<std::size_t>(m * k), 1);
    const Floats b = drawn(static_cast<std::size_t>(k * n), 2);
    const Floats start = drawn(static_cast<std::size_t>(m * n), 3);
    Floats chains = start;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        float& sum = chains[static_cast<std::size_t>(i * n + j)];
        for (std::int64_t p = 0; p < k; ++p) {
          sum = std::fma(a[static_cast<std::size_t>(i * k + p)],
                         b[static_cast<std::size_t>(j * k + p)], sum);
        }
      }
    }
    for (const std::string& name : exact_kernel_names()) {
      Floats c = start, scratch(kExactProductScratch);
      exact_kernels(name).multiply({m, n, k, a.data(), k, 1, b.data(), 1, k, c.data(), n},
                                   scratch.data());
      expect_same_bits(chains, c, name);
    }
  }
}

TEST(ExactKernels, SumsRunInSixteenLanes) {
  for (const std::size_t count : {1U, 7U, 16U, 37U, 1000U}) {
    const Floats x = drawn(count, 4);
    float lanes[16] = {};
    for (std::size_t i = 0; i < count; ++i) lanes[i % 16] += x[i];
    for (int step = 8; step > 0; step /= 2) {
      for (int i = 0; i < step; ++i) lanes[i] += lanes[i + step];
    }
    for (const std::string& name : exact_kernel_names()) {
      EXPECT_EQ(exact_kernels(name).sum(static_cast<std::int64_t>(count), x.data()), lanes[0])
          << name << " of " << count;
    }
  }
}

Floats elements(const ExactKernels& kernels, std::size_t count) {
  const auto size = static_cast<std::int64_t>(count);
  const Floats x = drawn(count, 5), g = drawn(count, 6);
  Floats all, y(count), z(count);
  const auto keep = [&](const Floats& values) {
    all.insert(all.end(), values.begin(), values.end());
  };
  for (int kind = 0; kind <= static_cast<int>(ExactActivation::kSilu); ++kind) {
    kernels.activate(static_cast<ExactActivation>(kind), size, x.data(), y.data());
    keep(y);
    kernels.activate_back(static_cast<ExactActivation>(kind), size, x.data(), g.data(), y.data());
    keep(y);
  }
  const float numbers[] = {0.1F, 0.7F, -0.2F, 0.3F, 1.1F};
  kernels.normalize(size, x.data(), numbers, y.data());
  keep(y);
  kernels.normalize_back(size, x.data(), g.data(), numbers, y.data());
  keep(y);
  kernels.softmax(size, x.data(), y.data());
  keep(y);
  kernels.softmax_back(size, y.data(), g.data(), z.data());
  keep(z);
  all.push_back(kernels.log_sum_exp(size, x.data(), z.data()));
  all.push_back(kernels.squares(size, x.data(), 0.3F));
  all.push_back(kernels.dot(size, g.data(), x.data(), numbers));
  all.push_back(static_cast<float>(kernels.square_sum(size, x.data())));
  return all;
}

TEST(ExactKernels, ElementsAndRowsAreTheSameEverywhere) {
  for (const std::size_t count : {1U, 5U, 16U, 37U, 300U}) {
    expect_same_everywhere([&](const ExactKernels& kernels) { return elements(kernels, count); });
  }
}

TEST(ExactKernels, NormsAreTheSameEverywhere) {
  constexpr std::int64_t kRows = 5;
  for (const std::int64_t width : {3, 16, 45}) {
    const auto size = static_cast<std::size_t>(kRows * width);
    const Floats x = drawn(size, 1), g = drawn(size, 2), w = drawn(size, 3), b = drawn(size, 4);
    expect_same_everywhere([&](const ExactKernels& kernels) {
      Floats y(size), back(size), means(kRows), scales(kRows), to_w = w, to_b = b, all;
      for (const bool centred : {true, false}) {
        (centred ? kernels.layer_norm
                 : kernels.rms_norm)({kRows, width, x.data(), w.data(), b.data(), y.data(),
                                      means.data(), scales.data(), 1e-5F});
        (centred ? kernels.layer_norm_back : kernels.rms_norm_back)(
            {kRows, width, x.data(), w.data(), means.data(), scales.data(), g.data(), back.data()});
        kernels.layer_norm_columns({kRows, width, 0, width, x.data(), means.data(), scales.data(),
                                    g.data(), to_w.data(), centred ? to_b.data() : nullptr});
        for (const Floats* part : {&y, &back, &means, &scales, &to_w, &to_b}) {
          all.insert(all.end(), part->begin(), part->end());
        }
      }
      return all;
    });
  }
}

TEST(ExactKernels, UpdatesAreTheSameEverywhere) {
  const Floats value = drawn(37, 1), gradient = drawn(37, 2), mean = drawn(37, 3);
  Floats square = drawn(37, 4);
  for (float& one : square) one = one * one;
  expect_same_everywhere([&](const ExactKernels& kernels) {
    Floats all;
    for (const auto function : {kernels.sgd, kernels.sgd_momentum, kernels.adam}) {
      Floats v = value, first = mean, second = square;
      ExactUpdate update{37, v.data(), gradient.data(), first.data(), second.data()};
      update.factor = 0.7F, update.decay = 0.01F, update.shrink = 0.999F, update.rate = 0.1F;
      update.momentum = 0.9F, update.beta1 = 0.9F, update.beta2 = 0.999F, update.epsilon = 1e-8F;
      function(update);
      for (const Floats* part : {&v, &first, &second}) {
        all.insert(all.end(), part->begin(), part->end());
      }
    }
    return all;
  });
}

TEST(ExactKernels, AnUnknownNameListsThoseThatRun) {
  expect_error(ErrorCode::kInvalidArgument, "it runs: scalar",
               [] { static_cast<void>(exact_kernels("mmx")); });
}

TEST(ExactRate, PowersAndTurnsAreThoseOfTheLibraryWithinRounding) {
  for (const std::int64_t n : {0, 1, 2, 7, 1000}) {
    EXPECT_NEAR(exact_power(0.999, n), std::pow(0.999, static_cast<double>(n)), 1e-14);
  }
  for (int i = 0; i <= 1000; ++i) {
    EXPECT_NEAR(exact_half_turn(i * 1e-3), std::cos(std::acos(-1.0) * i * 1e-3), 1e-15);
  }
}

TEST(ExactRate, NormalStartWeightsAreNormalAndTheSameEverywhere) {
  const ParameterSpec spec{"weight", {100, 100}, Init::kNormal, 0.02};
  const Tensor made = exact_start_weights(exact_kernels("scalar"), spec, 1, "wte.weight");
  double sum = 0, squares = 0;
  for (const float value : made.values<float>()) sum += value, squares += double{value} * value;
  EXPECT_NEAR(sum / 1e4, 0, 1e-3);
  EXPECT_NEAR(std::sqrt(squares / 1e4), 0.02, 5e-4);
  Random random(random_key(1, "wte.weight"));
  for (const float value : made.values<float>()) EXPECT_NEAR(value, 0.02F * random.normal(), 1e-6);
  expect_same_everywhere([&](const ExactKernels& kernels) {
    const Tensor again = exact_start_weights(kernels, spec, 1, "wte.weight");
    return Floats(again.values<float>().begin(), again.values<float>().end());
  });
}

}  // namespace
}  // namespace harmonics::inline in_runtime
