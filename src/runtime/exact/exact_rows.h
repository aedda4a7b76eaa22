// Sums along rows, in kExactLanes lanes whatever the width of vectors, and what needs them: norms,
// softmax, losses (private to runtime).
//
// Element i belongs to lane i mod 16; each lane adds its elements in order, from +0; then lanes l
// and l + 8 are added, l and l + 4, l and l + 2, and the last two.
#pragma once

#include "exact_functions.h"
#include "exact_kernels.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr std::int64_t kLaneVectors = kExactLanes / kExactWidth;
static_assert(kLaneVectors * kExactWidth == kExactLanes);

struct LaneSums {
  VecF lanes[kLaneVectors] = {};

  float total() const {
    float values[kExactLanes];
    for (std::int64_t v = 0; v < kLaneVectors; ++v) store(values + v * kExactWidth, lanes[v]);
    for (std::int64_t step = kExactLanes / 2; step > 0; step /= 2) {
      for (std::int64_t i = 0; i < step; ++i) values[i] = values[i] + values[i + step];
    }
    return values[0];
  }
};

/// Lanes whose elements do not exist keep their sums: a sum that is -0 would otherwise become +0.
inline VecF first_lanes(VecF value, VecF otherwise, std::int64_t count) {
  VecI number = {};
  for (int i = 0; i < kExactWidth; ++i) number[i] = i;
  return chosen(number < static_cast<std::int32_t>(count), value, otherwise);
}

/// `term(place, count, sum)` gives the lane's next sum over the elements at `place`; `count` is how
/// many of them there are.
template <typename Term>
inline float lane_sum(std::int64_t count, const Term& term) {
  LaneSums sums;
  std::int64_t i = 0;
  for (; i + kExactLanes <= count; i += kExactLanes) {
    for (std::int64_t v = 0; v < kLaneVectors; ++v) {
      sums.lanes[v] = term(i + v * kExactWidth, kExactWidth, sums.lanes[v]);
    }
  }
  for (std::int64_t v = 0; i < count; ++v, i += kExactWidth) {
    const std::int64_t some = count - i < kExactWidth ? count - i : kExactWidth;
    sums.lanes[v] = first_lanes(term(i, some, sums.lanes[v]), sums.lanes[v], some);
  }
  return sums.total();
}

inline float exact_sum(std::int64_t count, const float* x) {
  return lane_sum(count, [=](std::int64_t i, std::int64_t some, VecF sum) {
    return sum + load_up_to(x + i, some);
  });
}

inline float exact_squares(std::int64_t count, const float* x, float mean) {
  return lane_sum(count, [=](std::int64_t i, std::int64_t some, VecF sum) {
    const VecF off = load_up_to(x + i, some) - mean;
    return fused(off, off, sum);
  });
}

inline float exact_dot(std::int64_t count, const float* gradient, const float* x,
                       const float* two) {
  const float mean = two[0], scale = two[1];
  return lane_sum(count, [=](std::int64_t i, std::int64_t some, VecF sum) {
    return fused(load_up_to(gradient + i, some), (load_up_to(x + i, some) - mean) * scale, sum);
  });
}

/// In float64, where squares of floats are exact, in the same 16 lanes.
inline double exact_square_sum(std::int64_t count, const float* x) {
  double lanes[kExactLanes] = {};
  std::int64_t i = 0;
  for (; i + kExactLanes <= count; i += kExactLanes) {
    for (std::int64_t l = 0; l < kExactLanes; ++l) {
      const double value = x[i + l];
      lanes[l] = lanes[l] + value * value;
    }
  }
  for (std::int64_t l = 0; i + l < count; ++l) {
    const double value = x[i + l];
    lanes[l] = lanes[l] + value * value;
  }
  for (std::int64_t step = kExactLanes / 2; step > 0; step /= 2) {
    for (std::int64_t l = 0; l < step; ++l) lanes[l] = lanes[l] + lanes[l + step];
  }
  return lanes[0];
}

inline void exact_add_rows(std::int64_t rows, std::int64_t width, const float* x,
                           std::int64_t stride, float* to) {
  for (std::int64_t j = 0; j < width; j += kExactWidth) {
    const std::int64_t some = width - j < kExactWidth ? width - j : kExactWidth;
    VecF sum = load_up_to(to + j, some);
    for (std::int64_t r = 0; r < rows; ++r) sum = sum + load_up_to(x + r * stride + j, some);
    store_up_to(to + j, sum, some);
  }
}

/// The largest; not a number where one of them is none.
inline float largest_of(std::int64_t count, const float* x) {
  float best = x[0];
  for (std::int64_t i = 1; i < count; ++i) best = x[i] > best || x[i] != x[i] ? x[i] : best;
  return best;
}

/// y = exp(x - best); the sum of them.
inline float exponentials(std::int64_t count, const float* x, float best, float* y) {
  return lane_sum(count, [=](std::int64_t i, std::int64_t some, VecF sum) {
    const VecF value = exact_exp(load_up_to(x + i, some) - best);
    store_up_to(y + i, value, some);
    return sum + value;
  });
}

inline void exact_softmax(std::int64_t count, const float* x, float* y) {
  if (count == 0) return;
  const float sum = exponentials(count, x, largest_of(count, x), y);
  map_one(count, y, y, [=](VecF value) { return value / sum; });
}

inline void exact_softmax_back(std::int64_t count, const float* y, const float* gradient,
                               float* answer) {
  const float mean = lane_sum(count, [=](std::int64_t i, std::int64_t some, VecF sum) {
    return fused(load_up_to(y + i, some), load_up_to(gradient + i, some), sum);
  });
  map_two(count, y, gradient, answer, [=](VecF p, VecF g) { return p * (g - mean); });
}

inline float exact_log_of(float x) {
  VecF value = all_of_one(x);
  float out[kExactWidth];
  store(out, exact_log(value));
  return out[0];
}

inline float exact_log_sum_exp(std::int64_t count, const float* x, float* probabilities) {
  const float best = largest_of(count, x);
  const float sum = exponentials(count, x, best, probabilities);
  map_one(count, probabilities, probabilities, [=](VecF value) { return value / sum; });
  return best + exact_log_of(sum);
}

inline float one_over_root(float x) { return 1.0F / __builtin_sqrtf(x); }

inline void exact_layer_norm(const ExactNormRows& all) {
  const auto width = static_cast<float>(all.width);
  for (std::int64_t r = 0; r < all.rows; ++r) {
    const float* const x = all.x + r * all.width;
    float* const y = all.y + r * all.width;
    const float mean = exact_sum(all.width, x) / width;
    const float scale = one_over_root(exact_squares(all.width, x, mean) / width + all.epsilon);
    for (std::int64_t j = 0; j < all.width; j += kExactWidth) {
      const std::int64_t some = all.width - j < kExactWidth ? all.width - j : kExactWidth;
      const VecF near = (load_up_to(x + j, some) - mean) * scale;
      const VecF value =
          fused(near, load_up_to(all.weight + j, some), load_up_to(all.bias + j, some));
      store_up_to(y + j, value, some);
    }
    all.means[r] = mean;
    all.scales[r] = scale;
  }
}

inline void exact_layer_norm_back(const ExactNormBack& all) {
  const auto width = static_cast<float>(all.width);
  for (std::int64_t r = 0; r < all.rows; ++r) {
    const float* const x = all.x + r * all.width;
    const float* const g = all.gradient + r * all.width;
    const float at = all.means[r], scale = all.scales[r];
    const auto own = [=](std::int64_t i, std::int64_t some) {
      return load_up_to(g + i, some) * load_up_to(all.weight + i, some);
    };
    const auto near = [=](std::int64_t i, std::int64_t some) {
      return (load_up_to(x + i, some) - at) * scale;
    };
    const float mean = lane_sum(all.width, [=](std::int64_t i, std::int64_t some,
                                               VecF sum) { return sum + own(i, some); }) /
                       width;
    const float slope =
        lane_sum(all.width, [=](std::int64_t i, std::int64_t some,
                                VecF sum) { return fused(own(i, some), near(i, some), sum); }) /
        width;
    for (std::int64_t j = 0; j < all.width; j += kExactWidth) {
      const std::int64_t some = all.width - j < kExactWidth ? all.width - j : kExactWidth;
      const VecF value = scale * fused(-near(j, some), all_of_one(slope), own(j, some) - mean);
      store_up_to(all.answer + r * all.width + j, value, some);
    }
  }
}

inline void exact_layer_norm_columns(const ExactNormColumns& all) {
  for (std::int64_t j = all.first; j < all.end; j += kExactWidth) {
    const std::int64_t some = all.end - j < kExactWidth ? all.end - j : kExactWidth;
    VecF weight = load_up_to(all.to_weight + j, some);
    VecF bias = all.to_bias == nullptr ? VecF{} : load_up_to(all.to_bias + j, some);
    for (std::int64_t r = 0; r < all.rows; ++r) {
      const VecF g = load_up_to(all.gradient + r * all.width + j, some);
      const VecF x = load_up_to(all.x + r * all.width + j, some);
      weight = fused(g, (x - all.means[r]) * all.scales[r], weight);
      bias = bias + g;
    }
    store_up_to(all.to_weight + j, weight, some);
    if (all.to_bias != nullptr) store_up_to(all.to_bias + j, bias, some);
  }
}

inline void exact_rms_norm(const ExactNormRows& all) {
  const auto width = static_cast<float>(all.width);
  for (std::int64_t r = 0; r < all.rows; ++r) {
    const float* const x = all.x + r * all.width;
    const float scale = one_over_root(exact_squares(all.width, x, 0.0F) / width + all.epsilon);
    map_two(all.width, x, all.weight, all.y + r * all.width,
            [=](VecF value, VecF weight) { return weight * (value * scale); });
    all.means[r] = 0.0F;
    all.scales[r] = scale;
  }
}

inline void exact_rms_norm_back(const ExactNormBack& all) {
  const auto width = static_cast<float>(all.width);
  for (std::int64_t r = 0; r < all.rows; ++r) {
    const float* const x = all.x + r * all.width;
    const float* const g = all.gradient + r * all.width;
    const float scale = all.scales[r];
    const auto own = [=](std::int64_t i, std::int64_t some) {
      return load_up_to(g + i, some) * load_up_to(all.weight + i, some);
    };
    const float slope = lane_sum(all.width,
                                 [=](std::int64_t i, std::int64_t some, VecF sum) {
                                   return fused(own(i, some), load_up_to(x + i, some) * scale, sum);
                                 }) /
                        width;
    for (std::int64_t j = 0; j < all.width; j += kExactWidth) {
      const std::int64_t some = all.width - j < kExactWidth ? all.width - j : kExactWidth;
      const VecF near = load_up_to(x + j, some) * scale;
      store_up_to(all.answer + r * all.width + j,
                  scale * fused(-near, all_of_one(slope), own(j, some)), some);
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_runtime
