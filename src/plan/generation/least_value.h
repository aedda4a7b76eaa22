// The least value that grows with the period of a step and with its way (private to plan).
//
// Of the plans with a period of at most x, the one with the shortest way is found exactly
// (find_least_weight). Plans with a period above a and up to b have a value of at least that of a
// and the shortest way at b: intervals of periods are split until none can hold a better plan.
#pragma once

#include <functional>

#include "generation_steps.h"
#include "search/weight_search.h"

namespace harmonics::inline in_plan {

/// Values that differ by a smaller share are the same.
inline constexpr double kSameGenerationValue = 1e-7;

struct LeastValueQuestion {
  /// Whose period and way count.
  const GenerationStep& step;
  std::function<double(double period_s, double way_s)> value;
  /// The period from which on the value is `most` or more, though the way is only `way_s`.
  std::function<double(double most, double way_s)> period_of;
  /// No plan has a shorter period.
  double least_period_s = 0;
  /// A plan that will do, and its value.
  Placement known;
  double known_value = 0;
  /// Where another step has to keep a period and a way.
  const GenerationStep* kept = nullptr;
  double kept_period_s = 0;
  double kept_way_s = 0;
  /// Steps of work of one look; 0: the default.
  std::uint64_t work = 0;
};

struct LeastValue {
  Placement placement;
  double value = 0;
  /// No plan has less.
  double bound = 0;
  std::uint64_t work = 0;
};

[[nodiscard]] LeastValue find_least_value(const LeastValueQuestion& question);

}  // namespace harmonics::inline in_plan
