// What a reproducible run takes from outside its kernels: start weights, powers and the course of
// the learning rate, without the C library's functions, which differ between machines (private to
// runtime).
#pragma once

#include <cstdint>
#include <string_view>

#include <harmonics/graph/layer_type.h>
#include <harmonics/runtime/options.h>
#include <harmonics/tensor/tensor.h>

#include "exact_kernels.h"

namespace harmonics::inline in_runtime {

/// base to the power of n >= 0 by squaring, from the lowest bit of n on, in float64.
[[nodiscard]] double exact_power(double base, std::int64_t n);

/// cos(pi x) for x in [0, 1], in float64: within 1e-15.
[[nodiscard]] double exact_half_turn(double x);

/// LearningRateSchedule::at by means of these two.
[[nodiscard]] double exact_rate_factor(const LearningRateSchedule& schedule, std::int64_t step);

/// Uniform and constant start weights are those of every backend; normal ones are drawn from the
/// same numbers by Box and Muller's way in the reproducible functions.
[[nodiscard]] Tensor exact_start_weights(const ExactKernels& kernels, const ParameterSpec& spec,
                                         std::uint64_t seed, std::string_view full_name);

}  // namespace harmonics::inline in_runtime
