#include "candidate_periods.h"

#include <algorithm>
#include <cmath>

namespace harmonics::inline in_plan {
namespace {

// Collects the times of one class after the other.
class Candidates {
 public:
  Candidates(const StageGraphBuilder& builder, bool replicate, double above_s, double below_s)
      : builder_(builder),
        costs_(builder.costs()),
        replicate_(replicate),
        above_s_(above_s),
        below_s_(below_s) {}

  // False when there are too many.
  bool add_class(std::size_t u) {
    find_bandwidths(u);
    const std::size_t layers = costs_.layers();
    const double most_hosts = replicate_ ? builder_.capacity()[u] : 1;
    for (std::size_t i = 0; i < layers; ++i) {
      for (std::size_t j = i + 1; j <= layers; ++j) {
        ++work_;
        if (costs_.compute_s(u, i, j) >= below_s_ * most_hosts) break;
        if (!costs_.allowed(u, i, j)) continue;
        add_stage(u, i, j);
        if (values_.size() > 2 * kMaxCandidates && !unique()) return false;
      }
    }
    return true;
  }

  bool unique() {
    std::ranges::sort(values_);
    const auto same = [](double a, double b) { return b <= a * (1 + 2 * kTimeTolerance); };
    values_.erase(std::unique(values_.begin(), values_.end(), same), values_.end());
    return values_.size() <= kMaxCandidates;
  }

  std::vector<double> take() { return std::move(values_); }
  std::uint64_t work() const { return work_; }

 private:
  // The bandwidths at which this class may receive and send.
  void find_bandwidths(std::size_t u) {
    bandwidths_.clear();
    for (std::size_t v = 0; v < costs_.classes(); ++v) {
      bandwidths_.push_back(costs_.end_bandwidth(u, v));
    }
    std::ranges::sort(bandwidths_);
    bandwidths_.erase(std::unique(bandwidths_.begin(), bandwidths_.end()), bandwidths_.end());
  }

  void add_stage(std::size_t u, std::size_t i, std::size_t j) {
    const std::size_t ins = i == 0 ? 1 : bandwidths_.size();
    const std::size_t outs = j == costs_.layers() ? 1 : bandwidths_.size();
    for (std::size_t a = 0; a < ins; ++a) {
      for (std::size_t b = 0; b < outs; ++b) {
        ++work_;
        add_time(costs_.stage_s(u, i, j, bandwidths_[a], bandwidths_[b]),
                 replicate_ ? builder_.capacity()[u] : 1);
      }
    }
  }

  void add_time(double stage_s, std::size_t most_hosts) {
    if (!std::isfinite(stage_s)) return;
    double hosts = std::max(1.0, std::floor(stage_s / below_s_));
    for (; hosts <= static_cast<double>(most_hosts); ++hosts) {
      const double period = stage_s / hosts;
      if (period <= above_s_) break;
      if (period < below_s_) values_.push_back(period);
    }
  }

  const StageGraphBuilder& builder_;
  const CostModel& costs_;
  const bool replicate_;
  const double above_s_;
  const double below_s_;
  std::vector<double> bandwidths_;
  std::vector<double> values_;
  std::uint64_t work_ = 0;
};

}  // namespace

std::optional<std::vector<double>> candidate_periods(const StageGraphBuilder& builder,
                                                     bool replicate, double above_s, double below_s,
                                                     WorkBudget& budget) {
  // Ends that are equal but for rounding are not inside.
  Candidates candidates(builder, replicate, above_s * (1 + 2 * kTimeTolerance),
                        below_s * (1 - 2 * kTimeTolerance));
  for (std::size_t u = 0; u < builder.costs().classes(); ++u) {
    if (builder.capacity()[u] == 0) continue;
    const bool listed = candidates.add_class(u);
    if (!listed) {
      budget.charge(candidates.work());
      return std::nullopt;
    }
  }
  budget.charge(candidates.work());
  if (!candidates.unique()) return std::nullopt;
  return candidates.take();
}

}  // namespace harmonics::inline in_plan
