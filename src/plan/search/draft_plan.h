// The stages of a plan that is changed step by step, and the hosts that it takes for a given
// period.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <harmonics/plan/placement.h>

#include "stage_graph.h"

namespace harmonics::inline in_plan {

/// A stage: it begins where the one before it ends.
struct DraftStage {
  std::size_t end = 0;
  std::size_t host_class = 0;
  /// What it takes before hosts share it.
  double time_s = 0;
  /// Hosts that keep the period. Without replication 1, and more by the share that it is late.
  double hosts = 1;
};

/// The most stages that a change puts in place of others.
inline constexpr std::size_t kMostChanged = 12;

/// A few stages in the place of neighbours.
struct DraftChange {
  std::size_t first = 0;
  std::size_t removed = 0;
  std::size_t added = 0;
  /// Ends and classes; `attempt` fills in the rest, and adds the neighbours whose time changes.
  std::array<DraftStage, kMostChanged + 2> stages;
};

/// The stages of a plan, whether or not there are hosts for all of them. For hosts in any order.
/// Not thread safe.
class DraftPlan {
 public:
  /// Keeps a reference to the builder. Every stage of `start` is one that its costs allow.
  DraftPlan(const StageGraphBuilder& builder, bool replicate, const Placement& start);
  /// Begins anew with these stages.
  void restart(const Placement& start);

  [[nodiscard]] std::span<const DraftStage> stages() const { return stages_; }
  [[nodiscard]] std::size_t begin_of(std::size_t k) const {
    return k == 0 ? 0 : stages_[k - 1].end;
  }
  /// Hosts that are missing, each by its weight; 0: this is a plan that keeps the period.
  [[nodiscard]] double missing() const { return missing_; }

  /// The same and a share of what all hosts in use weigh.
  [[nodiscard]] double cost() const { return cost_; }

  /// Counts hosts for this period; `weight`: of a missing host of each class.
  void aim_at(double period_s, std::span<const double> weight);

  /// The cost after the changes (one or two, more than a stage apart); infinite where
  /// a stage is not allowed. `keep` or `drop` follows.
  [[nodiscard]] double attempt(std::span<DraftChange> changes);
  void keep(std::span<const DraftChange> changes);
  void drop();

  /// The least period that these stages can have; infinite where hosts are missing for any.
  [[nodiscard]] double least_period_s() const;
  /// These stages with the fewest hosts that keep a period.
  [[nodiscard]] Placement placement(double period_s) const;
  /// Stages looked at so far.
  [[nodiscard]] std::uint64_t work() const { return work_; }

 private:
  [[nodiscard]] double hosts_of(double time_s) const;
  [[nodiscard]] bool measure(DraftChange& change, std::size_t k) const;
  [[nodiscard]] bool measure_all(DraftChange& change);
  void take(std::size_t host_class, double hosts);
  [[nodiscard]] bool fits_within(double period_s) const;

  const StageGraphBuilder& builder_;
  const CostModel& costs_;
  const bool replicate_;
  std::vector<DraftStage> stages_;
  double period_s_ = 0;
  std::vector<double> weight_;
  std::vector<double> used_;  // per class
  double missing_ = 0;
  double cost_ = 0;
  double missing_before_ = 0;
  double cost_before_ = 0;
  std::vector<std::pair<std::size_t, double>> taken_;  // since the attempt began
  std::uint64_t work_ = 0;
};

}  // namespace harmonics::inline in_plan
