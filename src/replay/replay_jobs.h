// The jobs of a replay as the tasks that are submitted (private to replay).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <harmonics/replay/replay.h>

namespace harmonics::inline in_replay {

/// In the order of their submission; that is the order of their numbers as tasks.
class ReplayJobs {
 public:
  ReplayJobs(const Trace& trace, const ReplayOptions& options);

  [[nodiscard]] std::size_t size() const { return order_.size(); }
  [[nodiscard]] const TraceJob& at(std::size_t job) const { return trace_.jobs[order_[job]]; }
  [[nodiscard]] Nanoseconds arrival(std::size_t job) const { return at(job).arrival; }
  [[nodiscard]] Nanoseconds duration(std::size_t job) const;
  [[nodiscard]] std::string_view user(std::size_t job) const;
  [[nodiscard]] TaskSpec spec(std::size_t job) const;
  /// Thousandths of GPUs that it asks for in all.
  [[nodiscard]] std::uint64_t gpu_milli(std::size_t job) const;
  [[nodiscard]] const ReplayOptions& options() const { return options_; }
  /// Jobs that no machines could ever run.
  [[nodiscard]] std::uint64_t impossible() const { return impossible_; }

  [[nodiscard]] std::size_t index(TaskId task) const { return task.value - 1; }
  [[nodiscard]] TaskId task(std::size_t job) const { return TaskId{job + 1}; }

 private:
  void fill_bag();
  [[nodiscard]] bool possible(const TraceJob& job) const;

  const Trace& trace_;
  const ReplayOptions& options_;
  std::uint32_t most_gpus_ = 0;  ///< Of one machine.
  std::vector<std::uint32_t> order_;
  std::vector<float> stretch_;  ///< Of the limits.
  std::uint64_t impossible_ = 0;
};

}  // namespace harmonics::inline in_replay
