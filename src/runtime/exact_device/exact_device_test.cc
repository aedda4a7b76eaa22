// The kernels of devices give the bits of the CPU's, number by number: over floats of every size,
// subnormals, both zeros and infinities. HARMONICS_SOAK=1 takes all 2^32 floats.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/runtime/opencl_devices.h>

#include <error_testing.h>

#include "exact_device/cuda_driver.h"
#include "exact_device/device_operations.h"

namespace harmonics::inline in_runtime {
namespace {

using Floats = std::vector<float>;

bool asked_for(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string(value) == "1";
}

class ExactDevices : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (GetParam() == Backend::GPU) {
      if (!cuda_available() && asked_for("HARMONICS_REQUIRE_GPU")) FAIL() << "no GPU answers";
      if (!cuda_available()) GTEST_SKIP() << "no GPU answers";
      device_ = make_exact_cuda_device(0, 0);
      return;
    }
    const auto devices = list_opencl_devices();
    const auto chosen = choose_opencl_device(devices, opencl_wish(std::nullopt));
    if (!chosen) GTEST_SKIP() << opencl_lacking(devices, {});
    device_ = make_exact_opencl_device(*chosen, 0);
  }

  ExactArray array(const Floats& values) {
    const Shape shape = {static_cast<std::int64_t>(values.size())};
    ExactArray made = device_->empty(shape);
    device_->write(made, Tensor::of<float>(shape, values));
    return made;
  }
  Floats floats(const ExactArray& from) {
    const Tensor here = device_->download(from);
    return {here.values<float>().begin(), here.values<float>().end()};
  }
  ExactDevice& device() { return *device_; }
  const ExactKernels& kernels() { return exact_kernels(); }

 private:
  std::unique_ptr<ExactDevice> device_;
};

// Bits of what is no number are not promised.
void expect_same(const Floats& ours, const Floats& theirs, const std::string& what) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (std::isnan(ours[i]) && std::isnan(theirs[i])) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(ours[i]), std::bit_cast<std::uint32_t>(theirs[i]))
        << what << " at " << i << ": " << ours[i] << " and " << theirs[i];
  }
}

/// Normal numbers, among them some that are not: zeros of both signs, subnormals, large ones.
Floats drawn(std::size_t count, std::uint64_t seed) {
  Floats out(count);
  Random random(seed, "device");
  for (float& value : out) {
    value = random.normal();
    const std::uint64_t kind = random.below(16);
    if (kind == 0) value = 0.0F;
    if (kind == 1) value = -0.0F;
    if (kind == 2) value *= 0x1p-130F;
    if (kind == 3) value *= 0x1p-70F;
    if (kind == 4) value *= 0x1p+20F;
  }
  return out;
}

/// Every `step`th float from `first` on by its bits.
Floats floats_by_bits(std::uint32_t first, std::uint32_t step, std::size_t count) {
  Floats out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = std::bit_cast<float>(first + static_cast<std::uint32_t>(i) * step);
  }
  return out;
}

TEST_P(ExactDevices, FunctionsOfEveryKindOfFloat) {
  const bool all = asked_for("HARMONICS_SOAK");
  const std::size_t count = all ? std::size_t{1} << 22 : std::size_t{1} << 16;
  const std::uint64_t rounds = all ? (std::uint64_t{1} << 32) / count : 1;
  const auto size = static_cast<std::int64_t>(count);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const Floats x =
        floats_by_bits(static_cast<std::uint32_t>(round * count), all ? 1 : 65537, count);
    const ExactArray from = array(x), to = device().empty({size});
    for (int function = 0; function <= static_cast<int>(ExactFunction::kReciprocal); ++function) {
      Floats y(count);
      kernels().map(static_cast<ExactFunction>(function), size, x.data(), y.data());
      device().run("map_function", size, {function, from, to});
      expect_same(floats(to), y, "function " + std::to_string(function));
    }
  }
}

TEST_P(ExactDevices, ActivationsAndSlopesOfEveryKindOfFloat) {
  constexpr std::size_t kCount = 1 << 16;
  const Floats x = floats_by_bits(0, 65537, kCount), g = drawn(kCount, 1);
  const ExactArray from = array(x), gradient = array(g), to = device().empty({kCount});
  for (int kind = 0; kind <= static_cast<int>(ExactActivation::kSilu); ++kind) {
    Floats y(kCount);
    kernels().activate(static_cast<ExactActivation>(kind), kCount, x.data(), y.data());
    device().run("activate", kCount, {kind, from, to});
    expect_same(floats(to), y, "activation " + std::to_string(kind));
    kernels().activate_back(static_cast<ExactActivation>(kind), kCount, x.data(), g.data(),
                            y.data());
    device().run("activate_back", kCount, {kind, from, gradient, to});
    expect_same(floats(to), y, "slope " + std::to_string(kind));
  }
}

struct Extents {
  std::int64_t m, n, k;
};

TEST_P(ExactDevices, AProductIsOneChainPerElement) {
  for (const auto& [m, n, k] :
       {Extents{1, 1, 1}, {7, 33, 5}, {32, 32, 16}, {61, 70, 257}, {5, 3, 0}}) {
    for (const SumStart start : {SumStart::kZero, SumStart::kWhatIsThere, SumStart::kFirstByColumn,
                                 SumStart::kFirstByRow}) {
      const Floats a = drawn(static_cast<std::size_t>(m * k), 1);
      const Floats b = drawn(static_cast<std::size_t>(k * n), 2);
      const Floats before = drawn(static_cast<std::size_t>(m * n), 3);
      const Floats first = drawn(static_cast<std::size_t>(std::max(m, n)), 4);
      Floats chains(before.size());
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          const auto at = static_cast<std::size_t>(i * n + j);
          float sum = start == SumStart::kZero            ? 0.0F
                      : start == SumStart::kWhatIsThere   ? before[at]
                      : start == SumStart::kFirstByColumn ? first[static_cast<std::size_t>(j)]
                                                          : first[static_cast<std::size_t>(i)];
          for (std::int64_t p = 0; p < k; ++p) {
            sum = std::fma(a[static_cast<std::size_t>(p * m + i)],
                           b[static_cast<std::size_t>(j * k + p)], sum);
          }
          chains[at] = sum;
        }
      }
      const ExactArray one = array(a), other = array(b), c = array(before), starts = array(first);
      multiply_on(device(), {.m = m,
                             .n = n,
                             .k = k,
                             .a = {one, 0, 1, m},
                             .b = {other, 0, 1, k},
                             .c = {c, 0, n},
                             .start = start,
                             .first = starts});
      expect_same(floats(c), chains, "product");
    }
  }
}

TEST_P(ExactDevices, RowsAddUpInSixteenLanes) {
  constexpr std::int64_t kRows = 5;
  for (const std::int64_t width : {1, 7, 16, 37, 300}) {
    const Floats x = drawn(static_cast<std::size_t>(kRows * width), 5);
    const Floats g = drawn(static_cast<std::size_t>(kRows * width), 6);
    const ExactArray from = array(x), gradient = array(g), to = device().empty({kRows * width});
    const std::int64_t items = kRows * kExactLanesPerRow;
    const float numbers[] = {0.3F, 0.7F};
    Floats sums, squares, products, shares(x.size()), back(x.size());
    for (std::int64_t r = 0; r < kRows; ++r) {
      const std::int64_t at = r * width;
      sums.push_back(kernels().sum(width, x.data() + at));
      squares.push_back(kernels().squares(width, x.data() + at, 0.3F));
      products.push_back(kernels().dot(width, g.data() + at, x.data() + at, numbers));
      kernels().softmax(width, x.data() + at, shares.data() + at);
      kernels().softmax_back(width, shares.data() + at, g.data() + at, back.data() + at);
    }
    const ExactArray each = device().empty({kRows}), mean = array({0.3F}), scale = array({0.7F});
    device().run("plane_sums", items, {from, width, each});
    expect_same(floats(each), sums, "sums");
    device().run("plane_squares", items, {from, mean, 1, width, each});
    expect_same(floats(each), squares, "squares");
    device().run("plane_products", items, {gradient, from, mean, scale, 1, width, each});
    expect_same(floats(each), products, "products");
    device().run("softmax", items, {from, width, 0, to});
    expect_same(floats(to), shares, "softmax");
    device().run("softmax_back", items, {to, gradient, width, 0, to});
    expect_same(floats(to), back, "gradient of softmax");
  }
}

TEST_P(ExactDevices, UpdatesAndSumsOfSquares) {
  constexpr std::size_t kCount = 1037;
  const Floats value = drawn(kCount, 1), gradient = drawn(kCount, 2), mean = drawn(kCount, 3);
  Floats square = drawn(kCount, 4);
  for (float& one : square) one = one * one;
  RuntimeOptions options;
  options.backend = GetParam();
  options.strict = true;
  const auto place = make_exact_place(options);
  for (const ExactRule rule : {ExactRule::kSgd, ExactRule::kMomentum, ExactRule::kAdam}) {
    Floats v = value, first = mean, second = square;
    ExactUpdate update{kCount, v.data(), gradient.data(), first.data(), second.data()};
    update.factor = 0.7F, update.decay = 0.01F, update.shrink = 0.999F, update.rate = 0.1F;
    update.momentum = 0.9F, update.beta1 = 0.9F, update.beta2 = 0.999F, update.epsilon = 1e-8F;
    (rule == ExactRule::kSgd        ? kernels().sgd
     : rule == ExactRule::kMomentum ? kernels().sgd_momentum
                                    : kernels().adam)(update);
    const Shape shape = {kCount};
    const auto taken = [&](const Floats& all) {
      return place->take(Tensor::of<float>(shape, all));
    };
    const ExactArray weights = taken(value), slope = taken(gradient);
    const ExactWeights all{weights, slope, taken(mean), taken(square)};
    place->update(rule, update, all);
    const auto given = [&](const ExactArray& from) {
      const Tensor here = place->give(from);
      return Floats(here.values<float>().begin(), here.values<float>().end());
    };
    expect_same(given(all.value), v, "value");
    if (rule != ExactRule::kSgd) expect_same(given(all.first), first, "first slot");
    if (rule == ExactRule::kAdam) expect_same(given(all.second), second, "second slot");
    const std::vector<ExactArray> both = {slope, weights};
    const std::vector<double> sums = place->square_sums(both);
    EXPECT_EQ(sums.at(0), kernels().square_sum(kCount, gradient.data()));
    EXPECT_EQ(sums.at(1), kernels().square_sum(kCount, v.data()));
  }
}

// Without a GPU: NVRTC has to take the text for each of these architectures.
TEST(ExactCudaText, IsTakenByTheCompiler) {
  try {
    static_cast<void>(cuda_compiler_version());
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  for (const char* architecture : {"sm_80", "sm_90"}) {
    EXPECT_GT(exact_cuda_binary(architecture).size(), 100'000U) << architecture;
  }
}

/// Another device, but that one bit of what comes back is another.
class WrongDevice final : public ExactDevice {
 public:
  WrongDevice(ExactDevice& device, std::int64_t elements) : device_(device), elements_(elements) {}
  std::string name() const override { return "opencl:7"; }
  bool has_doubles() const override { return device_.has_doubles(); }
  void at(std::string operation) override { device_.at(std::move(operation)); }
  using ExactDevice::empty;
  ExactArray empty(const Shape& shape, DType dtype) override { return device_.empty(shape, dtype); }
  void write(const ExactArray& to, const Tensor& from) override { device_.write(to, from); }
  Tensor download(const ExactArray& array) override {
    Tensor here = device_.download(array);
    if (here.size() == elements_) here.mutable_bytes()[16] ^= std::byte{1};
    return here;
  }
  void run(const char* kernel, std::int64_t items,
           std::initializer_list<DeviceArgument> arguments) override {
    device_.run(kernel, items, arguments);
  }

 private:
  ExactDevice& device_;
  std::int64_t elements_;
};

TEST_P(ExactDevices, ADeviceThatGivesOtherBitsIsRefused) {
  check_bits_of(device());
  for (const auto& [elements, what] : {std::pair<std::int64_t, std::string>{4096, "(function 0:"},
                                       {33 * 17, "(a product:"},
                                       {8 * 37, "(sums of rows:"}}) {
    WrongDevice wrong(device(), elements);
    expect_error(ErrorCode::kFailedPrecondition, "opencl:7 gives other bits than the CPU " + what,
                 [&] { check_bits_of(wrong); });
  }
}

std::string backend_of(const testing::TestParamInfo<Backend>& info) {
  return info.param == Backend::GPU ? "gpu" : "opencl";
}

INSTANTIATE_TEST_SUITE_P(OpenCl, ExactDevices, testing::Values(Backend::FPGA), backend_of);
INSTANTIATE_TEST_SUITE_P(Cuda, ExactDevices, testing::Values(Backend::GPU), backend_of);

}  // namespace
}  // namespace harmonics::inline in_runtime
