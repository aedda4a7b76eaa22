// How far exp, log, tanh, erf and 1/sqrt are from the truth: at most 2 ulp for every float, the
// same on every instruction set. HARMONICS_SOAK=1 looks at all 2^32 floats, otherwise at every
// 4,093rd.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "exact/exact_kernels.h"

namespace harmonics::inline in_runtime {
namespace {

struct Function {
  std::string name;
  ExactFunction kind;
  std::function<double(double)> truth;  // float64 of the C library, far closer than an ulp
};

const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      {"exp", ExactFunction::kExp, [](double x) { return std::exp(x); }},
      {"log", ExactFunction::kLog, [](double x) { return std::log(x); }},
      {"tanh", ExactFunction::kTanh, [](double x) { return std::tanh(x); }},
      {"erf", ExactFunction::kErf, [](double x) { return std::erf(x); }},
      {"rsqrt", ExactFunction::kRsqrt, [](double x) { return 1 / std::sqrt(x); }},
  };
  return all;
}

/// The distance of floats at `value`.
double ulp_at(double value) {
  int exponent = 0;
  static_cast<void>(std::frexp(std::abs(value), &exponent));
  return std::ldexp(1.0, std::max(exponent - 24, -149));
}

struct Worst {
  double ulps = 0;
  float at = 0;
  std::uint64_t wrong = 0;  // not a number, or infinite, where the other is not
  std::uint64_t count = 0;

  void judge(float x, float y, double truth) {
    ++count;
    const auto rounded = static_cast<float>(truth);
    if (std::isnan(truth) || std::isinf(rounded) || !std::isfinite(y)) {
      const bool same = std::isnan(truth) ? std::isnan(y) : rounded == y;
      if (!same) ++wrong, at = x;
      return;
    }
    const double off = std::abs(static_cast<double>(y) - truth) / ulp_at(truth);
    if (off > ulps) ulps = off, at = x;
  }
  void join(const Worst& other) {
    if (other.ulps > ulps) ulps = other.ulps, at = other.at;
    wrong += other.wrong;
    count += other.count;
  }
};

Worst worst_between(const Function& function, std::uint64_t first, std::uint64_t end,
                    std::uint64_t stride) {
  constexpr std::size_t kBlock = 4096;
  std::vector<float> x, y(kBlock);
  Worst worst;
  while (first < end) {
    for (x.clear(); x.size() < kBlock && first < end; first += stride) {
      x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(first)));
    }
    exact_kernels().map(function.kind, static_cast<std::int64_t>(x.size()), x.data(), y.data());
    for (std::size_t i = 0; i < x.size(); ++i) worst.judge(x[i], y[i], function.truth(x[i]));
  }
  return worst;
}

Worst worst_of(const Function& function, std::uint64_t stride) {
  constexpr std::uint64_t kAll = std::uint64_t{1} << 32;
  Worst low, high;
  std::thread half([&] { low = worst_between(function, 0, kAll / 2, stride); });
  high = worst_between(function, kAll / 2, kAll, stride);
  half.join();
  low.join(high);
  return low;
}

TEST(ExactFunctions, AreWithinTwoUlp) {
  const char* all = std::getenv("HARMONICS_SOAK");
  const std::uint64_t stride = all != nullptr && std::string(all) == "1" ? 1 : 4093;
  for (const Function& function : functions()) {
    const Worst worst = worst_of(function, stride);
    EXPECT_LE(worst.ulps, 2.0) << function.name << " at " << worst.at;
    EXPECT_EQ(worst.wrong, 0U) << function.name << " at " << worst.at;
    std::printf("%-5s | %.4f ulp | at %a | of %llu floats | %s\n", function.name.c_str(),
                worst.ulps, static_cast<double>(worst.at),
                static_cast<unsigned long long>(worst.count), exact_kernels().name);
  }
}

TEST(ExactFunctions, GiveTheSameBitsOnEveryInstructionSet) {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 65521) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  const auto count = static_cast<std::int64_t>(x.size());
  for (const Function& function : functions()) {
    std::vector<float> first(x.size()), other(x.size());
    exact_kernels("scalar").map(function.kind, count, x.data(), first.data());
    for (const std::string& name : exact_kernel_names()) {
      exact_kernels(name).map(function.kind, count, x.data(), other.data());
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (std::isnan(first[i]) && std::isnan(other[i])) continue;  // its bits are not promised
        ASSERT_EQ(std::bit_cast<std::uint32_t>(first[i]), std::bit_cast<std::uint32_t>(other[i]))
            << function.name << " of " << x[i] << " on " << name;
      }
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_runtime
