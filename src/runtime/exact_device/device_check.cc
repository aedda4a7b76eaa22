#include <bit>
#include <cmath>

#include <harmonics/base/error.h>

#include "device_operations.h"

namespace harmonics::inline in_runtime {
namespace {

using Floats = std::vector<float>;

constexpr std::int64_t kCount = 4096, kRows = 8, kWidth = 37;
constexpr std::int64_t kDown = 33, kAcross = 17, kDepth = 40;

// Floats of every sign and size: their bits, `step` apart.
Floats spread_out(std::uint32_t step) {
  Floats all;
  for (std::uint32_t i = 0; i < kCount; ++i) all.push_back(std::bit_cast<float>(i * step));
  return all;
}
// Of both signs, around 1.
Floats middling() {
  Floats all;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    all.push_back(std::bit_cast<float>(0x3f000000U + (i * 2654435761U >> 8)) *
                  (i % 3 == 0 ? -1.0F : 1.0F));
  }
  return all;
}

class DeviceCheck {
 public:
  explicit DeviceCheck(ExactDevice& device)
      : device_(device),
        wide_(spread_out(1048583U)),
        near_(middling()),
        wide_there_(taken(wide_)),
        near_there_(taken(near_)) {}

  void functions() const {
    const ExactArray to = device_.empty({kCount});
    Floats y(kCount);
    for (int function = 0; function <= static_cast<int>(ExactFunction::kReciprocal); ++function) {
      kernels_.map(static_cast<ExactFunction>(function), kCount, wide_.data(), y.data());
      device_.run("map_function", kCount, {function, wide_there_, to});
      expect(to, y, format("function {}", function));
    }
  }
  void products() const {
    Floats c(kDown * kAcross), scratch(kExactProductScratch);
    kernels_.multiply({kDown, kAcross, kDepth, near_.data(), kDepth, 1, near_.data(), 1, kDepth,
                       c.data(), kAcross},
                      scratch.data());
    const ExactArray to = device_.empty({kDown * kAcross});
    multiply_on(device_, {.m = kDown,
                          .n = kAcross,
                          .k = kDepth,
                          .a = {near_there_, 0, kDepth},
                          .b = {near_there_, 0, 1, kDepth},
                          .c = {to, 0, kAcross}});
    expect(to, c, "a product");
  }
  void rows() const {
    Floats y(kRows * kWidth);
    for (std::int64_t r = 0; r < kRows; ++r) {
      kernels_.softmax(kWidth, near_.data() + r * kWidth, y.data() + r * kWidth);
    }
    const ExactArray to = device_.empty({kRows * kWidth});
    device_.run("softmax", kRows * kExactLanesPerRow, {near_there_, kWidth, 0, to});
    expect(to, y, "sums of rows");
  }

 private:
  [[nodiscard]] ExactArray taken(const Floats& values) const {
    ExactArray made = device_.empty({kCount});
    device_.write(made, Tensor::of<float>({kCount}, values));
    return made;
  }
  // Bits of what is no number are not promised.
  void expect(const ExactArray& given, const Floats& expected, const std::string& what) const {
    const Tensor here = device_.download(given);
    const std::span<const float> ours = here.values<float>();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::isnan(ours[i]) && std::isnan(expected[i])) continue;
      if (std::bit_cast<std::uint32_t>(ours[i]) == std::bit_cast<std::uint32_t>(expected[i])) {
        continue;
      }
      fail(ErrorCode::kFailedPrecondition,
           "{} gives other bits than the CPU ({}: {} in place of {}): its compiler or its "
           "arithmetic is not fit for a reproducible run, take another device or the CPU",
           device_.name(), what, ours[i], expected[i]);
    }
  }

  ExactDevice& device_;
  const ExactKernels& kernels_ = exact_kernels();
  Floats wide_, near_;
  ExactArray wide_there_, near_there_;
};

}  // namespace

void check_bits_of(ExactDevice& device) {
  device.at("the comparison with the CPU");
  const DeviceCheck check(device);
  check.functions();
  check.products();
  check.rows();
}

}  // namespace harmonics::inline in_runtime
