// A plan with names: which host runs which layers. docs/formats/plan.md describes its text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/plan/placement.h>
#include <harmonics/plan/problem.h>

namespace harmonics::inline in_plan {

/// The most turns of one host in a round.
inline constexpr std::uint32_t kMaxPlanTurns = 1000;

/// Layers first_layer..last_layer, counted from 1, on one host or on several that take turns.
struct PlanStage {
  std::vector<std::string> hosts;
  std::size_t first_layer = 0;
  std::size_t last_layer = 0;
  /// How many micro-batches of a round each host takes, 1 to kMaxPlanTurns; empty: one each.
  std::vector<std::uint32_t> turns = {};

  bool operator==(const PlanStage&) const = default;
};

/// Stages in order.
struct Plan {
  std::vector<PlanStage> stages;

  bool operator==(const Plan&) const = default;
};

/// The seed's list: "- host: [first, last]" per host in stage order, "[]" without stages; hosts
/// that take unequally many turns have them as a third number.
[[nodiscard]] std::string plan_to_yaml(const Plan& plan);
/// Reads it back; hosts with the same layers one after the other are one stage. Layers that do not
/// follow on from each other and hosts that are there twice are an `Error` with file and line.
[[nodiscard]] Plan parse_plan(std::string_view text, std::string_view name);

/// Gives the stages of a placement hosts of their class, in the order of the problem.
[[nodiscard]] Plan name_hosts(const PlanProblem& problem, std::span<const PlacedStage> placement);
/// The other way round. A host that the problem does not have, a stage over hosts of several
/// classes, and layers that are not the problem's are an `Error` (kFailedPrecondition).
[[nodiscard]] Placement place_plan(const PlanProblem& problem, const Plan& plan);

/// What changes for one host from one plan to another; layers are 0..0 where it has none.
struct PlanChange {
  std::string host;
  std::size_t first_layer_before = 0;
  std::size_t last_layer_before = 0;
  std::size_t first_layer_after = 0;
  std::size_t last_layer_after = 0;
  /// Layers that it has afterwards and had not before: these must be moved to it.
  std::size_t layers_gained = 0;

  bool operator==(const PlanChange&) const = default;
};
/// The hosts whose layers differ: first those of the plan afterwards in its order, then those that
/// fall out in the order of the plan before.
[[nodiscard]] std::vector<PlanChange> plan_difference(const Plan& before, const Plan& after);
/// One line per change: "host: [1, 6] -> [1, 8], 2 layers to move".
[[nodiscard]] std::string difference_to_text(std::span<const PlanChange> changes);

/// Megabytes of layers that hosts have in `after` and had not in `before`.
[[nodiscard]] double moved_megabytes(std::span<const double> layer_memory_mb, const Plan& before,
                                     const Plan& after);

}  // namespace harmonics::inline in_plan
