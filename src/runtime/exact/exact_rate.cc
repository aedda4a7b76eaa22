#include "exact_rate.h"

#include <algorithm>
#include <cmath>

#include <harmonics/base/random.h>

#include "start_weights.h"

namespace harmonics::inline in_runtime {
namespace {

// cos and sin of a turn that is `fraction` / 2^32, in float32.
float turn_cosine(std::uint32_t fraction) {
  const std::uint32_t quarter = (fraction + 0x20000000U) >> 30;
  const auto rest = static_cast<std::int32_t>(fraction - (quarter << 30));
  const float u = static_cast<float>(rest) * 0x1p-32F, s = u * u;
  constexpr float kCosine[] = {1.0F, -0x1.3bd3ccp+4F, 0x1.03c1dcp+6F, -0x1.55c57ap+6F,
                               0x1.d9c2e8p+5F};
  constexpr float kSine[] = {0x1.921fb6p+2F, -0x1.4abbcep+5F, 0x1.466bbap+6F, -0x1.32ca9ep+6F,
                             0x1.4bc85cp+5F};
  const auto& terms = quarter % 2 == 0 ? kCosine : kSine;
  float sum = terms[4];
  for (int i = 3; i >= 0; --i) sum = std::fma(sum, s, terms[i]);
  if (quarter % 2 != 0) sum = sum * u;
  return quarter == 1 || quarter == 2 ? -sum : sum;
}

}  // namespace

double exact_power(double base, std::int64_t n) {
  double power = 1.0;
  for (; n > 0; n >>= 1) {
    if ((n & 1) != 0) power = power * base;
    base = base * base;
  }
  return power;
}

double exact_half_turn(double x) {
  // cos(pi x) = -sin(pi (x - 1/2)); Taylor's series for |y| <= pi/2, from the last term on.
  const double y = 0x1.921fb54442d18p+1 * (x - 0.5), s = y * y;
  double sum = 0;
  for (int n = 27; n >= 3; n -= 2) sum = (1.0 + sum) * (-s) / (n * (n - 1.0));
  return -(y + y * sum);
}

double exact_rate_factor(const LearningRateSchedule& schedule, std::int64_t step) {
  if (step < schedule.warmup_steps || schedule.kind == ScheduleKind::kConstant) {
    return schedule.at(step);
  }
  if (schedule.kind == ScheduleKind::kStep) {
    return exact_power(schedule.factor, step / std::max<std::int64_t>(schedule.every_steps, 1));
  }
  const std::int64_t length =
      std::max<std::int64_t>(schedule.total_steps - schedule.warmup_steps, 1);
  const double progress = std::min(
      1.0, static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(length));
  return schedule.floor + (1.0 - schedule.floor) * 0.5 * (1.0 + exact_half_turn(progress));
}

Tensor exact_start_weights(const ExactKernels& kernels, const ParameterSpec& spec,
                           std::uint64_t seed, std::string_view full_name) {
  if (spec.init != Init::kNormal) {
    return start_weights(spec, DType::kFloat32, seed, full_name);
  }
  Tensor out = Tensor::empty(spec.shape);
  Random random(random_key(seed, full_name));
  const auto scale = static_cast<float>(spec.scale);
  for (float& value : out.mutable_values<float>()) {
    // (r + 1) / 2^32, exact in float64, rounded once to float32.
    const auto chance = static_cast<float>((static_cast<double>(random()) + 1.0) * 0x1p-32);
    float log = 0;
    kernels.map(ExactFunction::kLog, 1, &chance, &log);
    value = scale * (std::sqrt(-2.0F * log) * turn_cosine(random()));
  }
  return out;
}

}  // namespace harmonics::inline in_runtime
