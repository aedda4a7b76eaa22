#include "draft_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "stage_graph_kinds.h"

namespace harmonics::inline in_plan {
namespace {

constexpr double kNotAllowed = std::numeric_limits<double>::infinity();
// How much a host in use costs besides a missing one: stages that suit their hosts leave room.
constexpr double kUseWeight = 0.7;
constexpr int kPeriodHalvings = 40;

}  // namespace

DraftPlan::DraftPlan(const StageGraphBuilder& builder, bool replicate, const Placement& start)
    : builder_(builder), costs_(builder.costs()), replicate_(replicate) {
  restart(start);
}

void DraftPlan::restart(const Placement& start) {
  stages_.clear();
  for (const PlacedStage& stage : start) stages_.push_back({stage.last_cut, stage.host_class});
  for (std::size_t k = 0; k < stages_.size(); ++k) {
    DraftChange one;
    one.first = k;
    one.removed = one.added = 1;
    one.stages[0] = stages_[k];
    static_cast<void>(measure(one, 0));
    stages_[k] = one.stages[0];
  }
}

double DraftPlan::hosts_of(double time_s) const {
  const double share = time_s / period_s_ * (1 - kTimeTolerance);
  return std::max(1.0, replicate_ ? std::ceil(share) : share);
}

// Fills in the k-th stage of a change; false when it is not allowed.
bool DraftPlan::measure(DraftChange& change, std::size_t k) const {
  DraftStage& stage = change.stages[k];
  const std::size_t u = stage.host_class;
  const std::size_t begin = k == 0 ? begin_of(change.first) : change.stages[k - 1].end;
  if (builder_.capacity()[u] == 0 || !costs_.allowed(u, begin, stage.end)) return false;
  double in = 0;
  double out = 0;
  if (begin > 0) {
    const DraftStage& sender = k == 0 ? stages_[change.first - 1] : change.stages[k - 1];
    in = costs_.end_bandwidth(u, sender.host_class);
  }
  if (stage.end < costs_.layers()) {
    const DraftStage& receiver =
        k + 1 == change.added ? stages_[change.first + change.removed] : change.stages[k + 1];
    out = costs_.end_bandwidth(u, receiver.host_class);
  }
  stage.time_s = costs_.stage_s(u, begin, stage.end, in, out);
  stage.hosts = hosts_of(stage.time_s);
  return std::isfinite(stage.time_s);
}

bool DraftPlan::measure_all(DraftChange& change) {
  if (!costs_.independent_ends()) {  // the neighbours' time depends on who they talk to
    if (change.first + change.removed < stages_.size()) {
      change.stages[change.added++] = stages_[change.first + change.removed++];
    }
    if (change.first > 0) {
      std::copy_backward(change.stages.begin(),
                         change.stages.begin() + static_cast<std::ptrdiff_t>(change.added),
                         change.stages.begin() + static_cast<std::ptrdiff_t>(change.added) + 1);
      change.stages[0] = stages_[--change.first];
      ++change.removed;
      ++change.added;
    }
  }
  work_ += change.added;
  for (std::size_t k = 0; k < change.added; ++k) {
    if (!measure(change, k)) return false;
  }
  return true;
}

void DraftPlan::take(std::size_t host_class, double hosts) {
  const double limit = builder_.capacity()[host_class];
  double& used = used_[host_class];
  const double over =
      weight_[host_class] * (std::max(0.0, used + hosts - limit) - std::max(0.0, used - limit));
  missing_ += over;
  cost_ += over + kUseWeight * weight_[host_class] * hosts;
  used += hosts;
}

void DraftPlan::aim_at(double period_s, std::span<const double> weight) {
  period_s_ = period_s;
  weight_.assign(weight.begin(), weight.end());
  used_.assign(costs_.classes(), 0);
  missing_ = cost_ = 0;
  for (DraftStage& stage : stages_) {
    stage.hosts = hosts_of(stage.time_s);
    take(stage.host_class, stage.hosts);
  }
  work_ += stages_.size();
}

double DraftPlan::attempt(std::span<DraftChange> changes) {
  taken_.clear();
  missing_before_ = missing_;
  cost_before_ = cost_;
  for (DraftChange& change : changes) {
    if (!measure_all(change)) return kNotAllowed;
  }
  for (const DraftChange& change : changes) {
    for (std::size_t k = 0; k < change.removed; ++k) {
      const DraftStage& stage = stages_[change.first + k];
      taken_.emplace_back(stage.host_class, -stage.hosts);
    }
    for (std::size_t k = 0; k < change.added; ++k) {
      taken_.emplace_back(change.stages[k].host_class, change.stages[k].hosts);
    }
  }
  for (const auto& [host_class, hosts] : taken_) take(host_class, hosts);
  return cost_;
}

void DraftPlan::keep(std::span<const DraftChange> changes) {
  for (const DraftChange& change : changes) {
    const auto first = stages_.begin() + static_cast<std::ptrdiff_t>(change.first);
    const std::size_t both = std::min(change.removed, change.added);
    std::copy_n(change.stages.begin(), both, first);
    const auto rest = first + static_cast<std::ptrdiff_t>(both);
    stages_.erase(rest, first + static_cast<std::ptrdiff_t>(change.removed));
    stages_.insert(stages_.begin() + static_cast<std::ptrdiff_t>(change.first + both),
                   change.stages.begin() + static_cast<std::ptrdiff_t>(both),
                   change.stages.begin() + static_cast<std::ptrdiff_t>(change.added));
  }
}

void DraftPlan::drop() {
  for (const auto& [host_class, hosts] : taken_) used_[host_class] -= hosts;
  missing_ = missing_before_;
  cost_ = cost_before_;
  taken_.clear();
}

bool DraftPlan::fits_within(double period_s) const {
  std::vector<double> left(builder_.capacity().begin(), builder_.capacity().end());
  for (const DraftStage& stage : stages_) {
    const double hosts = std::ceil(stage.time_s / period_s * (1 - kTimeTolerance));
    if (!replicate_ && hosts > 1) return false;
    left[stage.host_class] -= std::max(1.0, hosts);
    if (left[stage.host_class] < 0) return false;
  }
  return true;
}

double DraftPlan::least_period_s() const {
  double longest = 0;
  for (const DraftStage& stage : stages_) longest = std::max(longest, stage.time_s);
  if (!fits_within(longest)) return kNotAllowed;
  if (!replicate_) return longest;
  double low = 0;
  double high = longest;
  for (int k = 0; k < kPeriodHalvings && high > 0; ++k) {
    const double middle = low > 0 ? std::sqrt(low * high) : high / 4096;
    (fits_within(middle) ? high : low) = middle;
  }
  return high;
}

Placement DraftPlan::placement(double period_s) const {
  Placement result;
  for (std::size_t k = 0; k < stages_.size(); ++k) {
    const double hosts = std::ceil(stages_[k].time_s / period_s * (1 - kTimeTolerance));
    result.push_back({begin_of(k), stages_[k].end, stages_[k].host_class,
                      replicate_ ? static_cast<std::size_t>(std::max(1.0, hosts)) : 1});
  }
  return result;
}

}  // namespace harmonics::inline in_plan
