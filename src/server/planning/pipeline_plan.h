// From a pipeline and the workers that are free to its plan (private to server). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/cluster/effect.h>
#include <harmonics/cluster/pipeline.h>

namespace harmonics::inline in_server {

/// What was measured on a worker: seconds per unit of the graph and micro-batch, forward and back.
struct MeasuredWorker {
  std::vector<double> unit_s;
  double bandwidth_mbps = 0;  ///< 0: not known.
};

/// Units of a graph, counted from 1, that a worker has trained, and the seconds that a micro-batch
/// kept it busy with them.
struct TrainedPart {
  std::size_t first = 1;
  std::size_t last = 1;
  double micro_batch_s = 0;
  bool operator==(const TrainedPart&) const = default;
};
/// The most that is kept of one worker and model.
inline constexpr std::size_t kMaxTrainedParts = 16;

/// A worker that may get a stage, with what was measured there: the whole graph by a profile, or
/// parts of it while they were trained, the newest last.
struct StagePlace {
  PlanPlace place;
  std::optional<MeasuredWorker> measured{};
  std::vector<TrainedPart> trained{};
};
[[nodiscard]] inline bool is_measured(const StagePlace& place) {
  return place.measured || !place.trained.empty();
}

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

/// The period that a plan of the same pipeline has with these places, all of its workers being
/// among them; nothing when one is not.
[[nodiscard]] std::optional<double> period_with(const PipelineSpec& spec,
                                                const std::vector<StagePlace>& places,
                                                const std::string& plan);

/// The best plan that the planner finds; with `spec.stages`, the best one of exactly so many stages
/// (or as many as there are places, if these are fewer) on the fastest workers. NoFeasiblePlan when
/// memory or network allow none; another Error when no workers could help: the graph does not
/// parse, its shapes are not known, it has fewer layers than stages.
[[nodiscard]] PipelinePlan plan_pipeline(const PipelineSpec& spec,
                                         const std::vector<StagePlace>& places);

}  // namespace harmonics::inline in_server
