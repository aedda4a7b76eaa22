// Stages placed on classes of hosts, and what they cost: what the planner finds before hosts have
// names.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <harmonics/plan/cost_model.h>

namespace harmonics::inline in_plan {

/// The layers between two cuts on `hosts` hosts of one class, which take turns.
struct PlacedStage {
  std::size_t first_cut = 0;
  std::size_t last_cut = 0;
  std::size_t host_class = 0;
  std::size_t hosts = 1;

  bool operator==(const PlacedStage&) const = default;
};
/// Stages in order; together they cover all layers.
using Placement = std::vector<PlacedStage>;

struct StageCosts {
  double compute_s = 0;
  /// What counts for this stage's own time.
  double receive_s = 0;
  double send_s = 0;
  /// Until what it sends has arrived: at the smaller bandwidth of the two ends, and with the
  /// latency of the link.
  double transfer_s = 0;
  /// Of that, the latency.
  double latency_s = 0;
  /// What the stage adds to the period: its time over its hosts.
  double period_s = 0;
  double memory_bytes = 0;
  double capacity_bytes = 0;
};

/// Costs of the k-th stage.
[[nodiscard]] StageCosts stage_costs(const CostModel& costs, std::span<const PlacedStage> stages,
                                     std::size_t k);
/// The slowest stage: seconds from one finished micro-batch to the next. 0 without stages.
[[nodiscard]] double period_of(const CostModel& costs, std::span<const PlacedStage> stages);
/// Seconds that one micro-batch takes from end to end.
[[nodiscard]] double latency_of(const CostModel& costs, std::span<const PlacedStage> stages);

}  // namespace harmonics::inline in_plan
