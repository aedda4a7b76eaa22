// How long each worker takes for each unit of a graph, from what is known of it (private to
// server). Pure.
#pragma once

#include <vector>

#include <harmonics/graph/units.h>

#include "pipeline_plan.h"

namespace harmonics::inline in_server {

/// Seconds for each unit and micro-batch of so many samples, for each place:
/// - one with a profile takes what that says;
/// - one that has trained parts of the graph takes what the operations of its units are estimated
///   at, times how much longer than the estimate these parts took; the newest part with a unit
///   counts, all of them for units that it had in none;
/// - another one takes the estimate, times how much longer than theirs the places took that have
///   been measured and are of its kind, with devices or without.
/// Factors are rounded to steps of a tenth: finer ones are noise, and would make every worker a
/// kind of its own, which slows planning down.
/// `passes`: what a unit's work is, counted in forward passes.
inline constexpr double kTrainingPasses = 3;  ///< A backward pass costs about twice a forward pass.
[[nodiscard]] std::vector<std::vector<double>> unit_times(const std::vector<Unit>& units,
                                                          const std::vector<StagePlace>& places,
                                                          double samples,
                                                          double passes = kTrainingPasses);

}  // namespace harmonics::inline in_server
