// What workers have measured of models, kept in files (private to server).
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <harmonics/cluster/cluster_records.h>

#include "pipeline_plan.h"

namespace harmonics::inline in_server {

/// Files that a folder of measurements has at most. More than the workers that a plan can name, so
/// that a pipeline always finds what was measured for it.
inline constexpr std::size_t kMaxMeasurementFiles = 4096;

/// A stage that trains tells how long a micro-batch keeps it busy.
struct StageMeasured {
  std::shared_ptr<const Submission> submission;
  PlanPlace place;
  std::string plan;  ///< Of the attempt that runs.
  std::size_t rank = 0;
  double micro_batch_s = 0;
};

/// A cache: whatever is missing or broken counts as not measured. Measurements stand for each other
/// where model, micro-batch, worker, count of devices, threads, backend and precision are the same.
/// A folder that is full loses what has not been looked up for longest. One thread.
class ProfileStore {
 public:
  /// `folder` is the server's; it is made when there is something to keep.
  explicit ProfileStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// The place with all that is known of it.
  [[nodiscard]] StagePlace look_up(const PipelineSpec& spec, const PlanPlace& place) const;
  /// Where workers are to leave what `harmonics profile --output json` prints: in the folder that
  /// the pipeline shares with them, which is made and has room for all of these.
  [[nodiscard]] std::vector<std::filesystem::path> profile_files(
      const PipelineSpec& spec, std::span<const PlanPlace> places) const;
  /// A second measurement of the same layers replaces the first. What cannot be kept is logged.
  void keep(const StageMeasured& measured) const;

 private:
  [[nodiscard]] std::filesystem::path profile_folder(const PipelineSpec& spec) const;
  [[nodiscard]] std::filesystem::path trained_file(const PipelineSpec& spec,
                                                   const PlanPlace& place) const;

  const std::filesystem::path folder_;
};

}  // namespace harmonics::inline in_server
