#include <harmonics/plan/noise.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include <harmonics/base/format.h>

namespace harmonics::inline in_plan {
namespace {

// A time that is shorter by less is none.
constexpr double kLeastGain = 1e-9;

class NoisyPair {
 public:
  NoisyPair(const PlanProblem& problem, const CostModel& costs, const Placement& placement,
            std::size_t left)
      : problem_(problem), costs_(costs), placement_(placement), left_(left) {}

  [[nodiscard]] NoisyCut look() const {
    const PlacedStage& before = placement_[left_];
    NoisyCut cut{before.last_cut, left_, spread_of(before), spread_of(placement_[left_ + 1]), 0};
    const std::size_t planned = best_cut(1, 1);
    for (const auto& [slower, faster] : {std::array{1 + cut.spread_before, 1 - cut.spread_after},
                                         std::array{1 - cut.spread_before, 1 + cut.spread_after}}) {
      const std::size_t best = best_cut(slower, faster);
      cut.may_move_by = std::max(cut.may_move_by, best > planned ? best - planned : planned - best);
    }
    return cut;
  }

 private:
  [[nodiscard]] double spread_of(const PlacedStage& stage) const {
    const HostClass& hosts = problem_.classes[stage.host_class];
    if (hosts.time_spread.empty()) return 0;
    double squares = 0;
    double sum = 0;
    for (std::size_t k = stage.first_cut; k < stage.last_cut; ++k) {
      squares += std::pow(hosts.time_spread[k] * hosts.layer_time_s[k], 2);
      sum += hosts.layer_time_s[k];
    }
    return sum > 0 ? std::min(1.0, std::sqrt(squares) / sum) : 0;
  }

  // The larger time of both stages when the cut lies there; nothing where it must not.
  [[nodiscard]] std::optional<double> time_at(std::size_t cut, double before, double after) const {
    Placement moved = placement_;
    moved[left_].last_cut = moved[left_ + 1].first_cut = cut;
    double longest = 0;
    for (const auto& [k, factor] : {std::pair(left_, before), std::pair(left_ + 1, after)}) {
      const PlacedStage& stage = moved[k];
      if (!costs_.allowed(stage.host_class, stage.first_cut, stage.last_cut)) return std::nullopt;
      const StageCosts one = stage_costs(costs_, moved, k);
      const double compute = one.compute_s * factor;
      const double time = costs_.overlap() == Overlap::kNone
                              ? compute + one.receive_s + one.send_s
                              : std::max({compute, one.receive_s, one.send_s});
      longest = std::max(longest, time / static_cast<double>(stage.hosts));
    }
    return longest;
  }

  // Of equally good ones the nearest to where it is.
  [[nodiscard]] std::size_t best_cut(double before, double after) const {
    const std::size_t here = placement_[left_].last_cut;
    std::size_t best = here;
    double least = time_at(here, before, after).value_or(std::numeric_limits<double>::infinity());
    const auto apart = [&](std::size_t cut) { return cut > here ? cut - here : here - cut; };
    for (std::size_t cut = placement_[left_].first_cut + 1; cut < placement_[left_ + 1].last_cut;
         ++cut) {
      const std::optional<double> time = time_at(cut, before, after);
      if (!time) continue;
      const bool as_good = *time <= least * (1 + kLeastGain) && apart(cut) < apart(best);
      if (*time >= least * (1 - kLeastGain) && !as_good) continue;
      best = cut;
      least = *time;
    }
    return best;
  }

  const PlanProblem& problem_;
  const CostModel& costs_;
  const Placement& placement_;
  std::size_t left_;
};

std::size_t slowest_of(const CostModel& costs, const Placement& placement) {
  std::size_t slowest = 0;
  for (std::size_t k = 1; k < placement.size(); ++k) {
    if (stage_costs(costs, placement, k).period_s >
        stage_costs(costs, placement, slowest).period_s) {
      slowest = k;
    }
  }
  return slowest;
}

std::string percent(double share) { return format("+-{:.1f} %", 100 * share); }

}  // namespace

std::vector<NoisyCut> noisy_cuts(const PlanProblem& problem, const CostOptions& options,
                                 const Placement& placement) {
  std::vector<NoisyCut> cuts;
  if (placement.size() < 2) return cuts;
  const CostModel costs(problem, options);
  const std::size_t slowest = slowest_of(costs, placement);
  for (std::size_t left = slowest == 0 ? 0 : slowest - 1;
       left <= slowest && left + 1 < placement.size(); ++left) {
    const NoisyCut cut = NoisyPair(problem, costs, placement, left).look();
    if (cut.may_move_by > 0) cuts.push_back(cut);
  }
  return cuts;
}

std::string noise_to_text(const std::vector<NoisyCut>& cuts) {
  std::string text;
  for (const NoisyCut& cut : cuts) {
    text += format(
        "times of stages {} and {} were measured to {} and {}: this cut, behind layer {}, may move "
        "by {} layer{}\n",
        cut.stage + 1, cut.stage + 2, percent(cut.spread_before), percent(cut.spread_after),
        cut.behind_layer, cut.may_move_by, cut.may_move_by == 1 ? "" : "s");
  }
  return text;
}

Json noise_to_json(const std::vector<NoisyCut>& cuts) {
  Json list = Json::array();
  for (const NoisyCut& cut : cuts) {
    list.push(Json::object()
                  .set("behind_layer", static_cast<std::uint64_t>(cut.behind_layer))
                  .set("spread_before", cut.spread_before)
                  .set("spread_after", cut.spread_after)
                  .set("may_move_by", static_cast<std::uint64_t>(cut.may_move_by)));
  }
  return list;
}

}  // namespace harmonics::inline in_plan
