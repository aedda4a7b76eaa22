#include <harmonics/plan/placement.h>

#include <algorithm>

namespace harmonics::inline in_plan {

StageCosts stage_costs(const CostModel& costs, std::span<const PlacedStage> stages, std::size_t k) {
  const PlacedStage& stage = stages[k];
  const std::size_t u = stage.host_class;
  StageCosts result;
  double bytes_per_s_in = 0;
  double bytes_per_s_out = 0;
  if (stage.first_cut > 0) {
    bytes_per_s_in = costs.end_bandwidth(u, stages[k - 1].host_class);
    result.receive_s = costs.transfer_s(stage.first_cut, bytes_per_s_in);
  }
  if (stage.last_cut < costs.layers()) {
    const std::size_t next = stages[k + 1].host_class;
    bytes_per_s_out = costs.end_bandwidth(u, next);
    result.send_s = costs.transfer_s(stage.last_cut, bytes_per_s_out);
    result.latency_s = costs.link_latency_s(u, next);
    result.transfer_s =
        costs.transfer_s(stage.last_cut, costs.bandwidth(u, next)) + result.latency_s;
  }
  result.compute_s = costs.compute_s(u, stage.first_cut, stage.last_cut);
  result.period_s =
      costs.stage_s(u, stage.first_cut, stage.last_cut, bytes_per_s_in, bytes_per_s_out) /
      static_cast<double>(stage.hosts);
  result.memory_bytes = costs.memory_bytes(stage.first_cut, stage.last_cut);
  result.capacity_bytes = costs.capacity_bytes(u);
  return result;
}

double period_of(const CostModel& costs, std::span<const PlacedStage> stages) {
  double slowest = 0;
  for (std::size_t k = 0; k < stages.size(); ++k) {
    slowest = std::max(slowest, stage_costs(costs, stages, k).period_s);
  }
  return slowest;
}

double latency_of(const CostModel& costs, std::span<const PlacedStage> stages) {
  double sum = 0;
  for (std::size_t k = 0; k < stages.size(); ++k) {
    const StageCosts one = stage_costs(costs, stages, k);
    sum += one.compute_s + one.transfer_s;
  }
  return sum;
}

}  // namespace harmonics::inline in_plan
