// How many bits the boundaries of a plan have: as few as a tolerance allows, where that makes the
// plan faster, and as they are everywhere else.
//
// What packing takes from a value is bounded by the number of bits alone (bits_error); nothing is
// said about what becomes of a model's answers. docs/guides/planning.md tells how to look at those.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include <harmonics/plan/inputs.h>
#include <harmonics/plan/plan.h>
#include <harmonics/plan/planner.h>
#include <harmonics/plan/report.h>

namespace harmonics::inline in_plan {

/// Bits of a boundary whose tensors cross as they are.
inline constexpr int kUnpackedBits = 32;
inline constexpr double kDefaultBoundaryTolerance = 0.005;

/// How far off a value may be, as a share of the largest one of its row: half a step of 127 or 7
/// steps; for 16 bits (bfloat16) 2^-8, of the value itself. 0 for 32 bits.
[[nodiscard]] double bits_error(int bits);
/// The fewest of 4, 8, 16 and 32 bits with an error within the tolerance.
[[nodiscard]] int fewest_bits(double tolerance);

/// What a user asks for.
struct BitsWish {
  /// 4, 8, 16 or 32 for all boundaries; 0: the planner chooses for each.
  int bits = kUnpackedBits;
  double tolerance = kDefaultBoundaryTolerance;
};
/// "auto", "32", "16", "8" or "4"; anything else is an Error.
[[nodiscard]] int parse_boundary_bits(std::string_view text);

/// A plan with the bits of its boundaries.
struct PackedPlan {
  /// With the bytes that cross each cut of the plan when packed.
  PlanProblem problem;
  /// Its times include packing. The lower bound and its proof are those of plans whose boundaries
  /// all have the fewest bits and whose packing is free.
  PlanOutcome outcome;
  /// Between stage k and the next one.
  std::vector<int> bits;
  /// Of each stage, per micro-batch: unpacking what enters and packing what leaves.
  std::vector<double> packing_s;
  /// The period without packing.
  double exact_period_s = 0;
};

/// Chooses bits for the best plan of `exact`, which is `outcome`, and looks for a better one that
/// fewer bits allow. Types without a measured rate of packing count as if it cost nothing.
[[nodiscard]] PackedPlan choose_bits(const PlanProblem& exact, const PlanOutcome& outcome,
                                     const PlannerOptions& options, const BitsWish& wish,
                                     const DeviceTypeTable& types);

/// The report of such a plan; `plan` is its placement with names. Memory is that of boundaries as
/// they are: what is packed is unpacked again.
[[nodiscard]] PlanReport packed_report(const PackedPlan& packed, const PlanProblem& exact,
                                       const PlannerOptions& options, const Plan& plan);

}  // namespace harmonics::inline in_plan
