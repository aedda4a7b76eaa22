#include "start_weights.h"

#include <vector>

#include <harmonics/base/random.h>

namespace harmonics::inline in_runtime {
namespace {

template <typename Real>
void fill(std::span<Real> out, const ParameterSpec& spec, std::uint64_t key) {
  if (spec.init == Init::kConstant) {
    std::fill(out.begin(), out.end(), static_cast<Real>(spec.scale));
    return;
  }
  if (spec.init == Init::kNormal) {
    Random random(key);
    for (Real& value : out) value = static_cast<Real>(spec.scale) * random.normal();
    return;
  }
  // Uniform in [-scale, scale), in blocks so that the generator vectorises.
  std::vector<std::uint32_t> numbers(std::min<std::size_t>(out.size(), 1 << 16));
  const auto bound = static_cast<float>(spec.scale);
  for (std::size_t begin = 0, block = 0; begin < out.size(); begin += numbers.size(), ++block) {
    fill_random(key, 0, block, numbers);
    const std::size_t count = std::min(numbers.size(), out.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      const float unit = static_cast<float>(numbers[i] >> 8) * 0x1.0p-24f;
      out[begin + i] = static_cast<Real>(bound * (2.0f * unit - 1.0f));
    }
  }
}

}  // namespace

Tensor start_weights(const ParameterSpec& spec, DType dtype, std::uint64_t seed,
                     std::string_view full_name) {
  const std::uint64_t key = random_key(seed, full_name);
  Tensor out = Tensor::empty(spec.shape, dtype == DType::kFloat64 ? dtype : DType::kFloat32);
  if (dtype == DType::kFloat64) {
    fill(out.mutable_values<double>(), spec, key);
  } else {
    fill(out.mutable_values<float>(), spec, key);
  }
  return out;
}

}  // namespace harmonics::inline in_runtime
