// What the hosts of each class could earn if layers were worth something.
//
// Give every cut a height: a stage earns what it climbs. The stages of a plan climb from the start
// to the end, while those on the hosts of one class earn no more than the best set of stages that
// these hosts can hold at once. That set is found by going through the cuts and numbers of hosts
// (a knapsack of intervals), for all classes, cuts and hosts left over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stage_graph.h"

namespace harmonics::inline in_plan {

/// The most numbers that a table may hold: 8 bytes each.
inline constexpr std::size_t kMaxEarningCells = 8'000'000;

/// Per class, cut and number of hosts: the most that they can earn from there on. For graphs of
/// cuts alone; not thread safe.
class EarningTable {
 public:
  /// Whether a table for the graph is one of cuts and within the ceiling.
  [[nodiscard]] static bool suits(const StageGraph& graph, std::span<const std::uint16_t> capacity);

  /// Steps of work of filling a table for the graph.
  [[nodiscard]] static std::uint64_t work_of(const StageGraph& graph,
                                             std::span<const std::uint16_t> capacity);

  /// Begins anew with this graph, which suits; copies what it needs. With more than one host to a
  /// unit hosts are counted roughly, and earnings are guesses.
  void reset(const StageGraph& graph, std::span<const std::uint16_t> capacity,
             std::size_t hosts_per_unit = 1);

  /// Earnings with these heights, one per cut.
  void fill(std::span<const double> height);
  /// Steps of work of one call.
  [[nodiscard]] std::uint64_t work() const { return work_; }

  [[nodiscard]] double most(std::size_t host_class, std::size_t cut, std::size_t hosts) const {
    return cells_[first_cell_[host_class] + cut * (capacity_[host_class] + std::size_t{1}) + hosts];
  }
  /// What all hosts together earn from the start on.
  [[nodiscard]] double all() const;
  /// What is to be climbed from a cut on.
  [[nodiscard]] double to_climb(std::size_t cut) const { return height_.back() - height_[cut]; }
  /// Adds 1 to each layer for each class in whose best set it is.
  void count_cover(std::vector<double>& cover) const;

 private:
  struct Stage {
    std::uint32_t first_cut;
    std::uint32_t last_cut;
    std::uint32_t hosts;
  };

  void fill_cut(std::size_t host_class, std::size_t cut);
  [[nodiscard]] double climb(const Stage& stage) const {
    return height_[stage.last_cut] - height_[stage.first_cut];
  }
  [[nodiscard]] std::span<const Stage> stages(std::size_t host_class, std::size_t cut) const {
    const std::size_t at = host_class * cuts_ + cut;
    return {stages_.data() + first_stage_[at], first_stage_[at + 1] - first_stage_[at]};
  }

  std::vector<std::uint16_t> capacity_;
  std::size_t cuts_ = 0;
  std::vector<Stage> stages_;             // by class and first cut
  std::vector<std::size_t> first_stage_;  // per class and cut, and one past the last
  std::vector<std::size_t> first_cell_;   // per class
  std::vector<double> cells_;
  std::vector<double> height_;
  std::uint64_t work_ = 0;
};

}  // namespace harmonics::inline in_plan
