// How long tasks wait and run: histograms for the metrics page (private to server).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <unordered_map>

#include <harmonics/cluster/cluster_state.h>

namespace harmonics::inline in_server {

/// Counts durations in buckets. Any thread.
class Histogram {
 public:
  /// Upper ends of the buckets, in seconds; what is longer is counted beyond them.
  static constexpr std::array<double, 12> kBounds{0.1, 0.5,  1,    5,     15,    60,
                                                  300, 1800, 7200, 28800, 86400, 604800};

  void add(Nanoseconds duration);
  /// Durations up to kBounds[bucket]; all of them for the bucket after the last.
  [[nodiscard]] std::uint64_t count_up_to(std::size_t bucket) const;
  [[nodiscard]] double sum_s() const;

 private:
  std::array<std::atomic<std::uint64_t>, kBounds.size() + 1> counts_{};
  std::atomic<std::int64_t> sum_ns_{0};
};

/// Follows the facts of one server. `learn` is the loop's; the histograms are anybody's.
class TaskTimes {
 public:
  /// Of what runs already when the server starts.
  void begin(const ClusterState& state);
  /// `state` has taken the fact already.
  void learn(const ClusterState& state, const Fact& fact, Time now);

  /// From submission to the start of the first attempt.
  [[nodiscard]] const Histogram& waiting() const { return waiting_; }
  /// Of each attempt, from start to end.
  [[nodiscard]] const Histogram& running() const { return running_; }

 private:
  void ended(TaskId task, Time now);

  std::unordered_map<TaskId, Time> started_;  ///< Of the attempts that run.
  Histogram waiting_;
  Histogram running_;
};

}  // namespace harmonics::inline in_server
