// From a pipeline and the workers that are free to its plan (private to server). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/cluster/effect.h>
#include <harmonics/cluster/pipeline.h>

namespace harmonics {

/// What was measured on a worker: seconds per unit of the graph and micro-batch, forward and back.
struct MeasuredWorker {
  std::vector<double> unit_s;
  double bandwidth_mbps = 0;  ///< 0: not known.
};

/// A worker that may get a stage.
struct StagePlace {
  PlanPlace place;
  std::optional<MeasuredWorker> measured;
};

struct PipelinePlan {
  std::vector<std::size_t> stages;  ///< Places in the order of the stages.
  Json text;                        ///< What docs/formats/pipeline-plan.md describes.
};

/// Where a worker has not been measured, floating-point operations stand for time, at these rates.
inline constexpr double kEstimatedCpuFlops = 10e9;
inline constexpr double kEstimatedGpuFlops = 5e12;
/// Where nothing was measured: on one machine, and between machines.
inline constexpr double kEstimatedLocalMbps = 20'000;
inline constexpr double kEstimatedNetworkMbps = 1'000;

/// Samples of a micro-batch as the settings say.
[[nodiscard]] std::int64_t micro_batch_of(const PipelineSpec& spec);

/// The best plan that the planner finds; with `spec.stages`, the best one of exactly so many stages
/// (or as many as there are places, if these are fewer) on the fastest workers. NoFeasiblePlan when
/// memory or network allow none; another Error when no workers could help: the graph does not
/// parse, its shapes are not known, it has fewer layers than stages.
[[nodiscard]] PipelinePlan plan_pipeline(const PipelineSpec& spec,
                                         const std::vector<StagePlace>& places);

}  // namespace harmonics
