#include <harmonics/plan/fixed_order.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace harmonics::inline in_plan {
namespace {

constexpr double kUnreachable = std::numeric_limits<double>::infinity();
static_assert(kMaxPlanLayers <= std::numeric_limits<std::uint16_t>::max());

// Dynamic programme over (stage, cut): the shortest period of the first stages up to a cut.
class FixedOrderSearch {
 public:
  FixedOrderSearch(const CostModel& costs, std::span<const std::size_t> classes)
      : costs_(costs), class_of_(classes), stages_(classes.size()), cuts_(costs.layers() + 1) {}

  Placement run() {
    std::vector<double> before(cuts_, kUnreachable);
    before[0] = 0;
    for (std::size_t stage = 0; stage < stages_; ++stage) before = advance(stage, before);
    if (before.back() == kUnreachable) return {};
    Placement placement(stages_);
    std::size_t cut = cuts_ - 1;
    for (std::size_t stage = stages_; stage-- > 0;) {
      const std::size_t first = from_[stage][cut];
      placement[stage] = {first, cut, class_of_[stage], 1};
      cut = first;
    }
    return placement;
  }

 private:
  std::vector<double> advance(std::size_t stage, const std::vector<double>& before) {
    const bool last = stage + 1 == stages_;
    const std::size_t own = class_of_[stage];
    const double in = stage == 0 ? 0 : costs_.bandwidth(class_of_[stage - 1], own);
    const double out = last ? 0 : costs_.bandwidth(own, class_of_[stage + 1]);
    std::vector<double> after(cuts_, kUnreachable);
    std::vector<std::uint16_t>& from = from_.emplace_back(cuts_, 0);
    // Every stage before and behind this one needs a layer of its own.
    const std::size_t first = last ? cuts_ - 1 : stage + 1;
    for (std::size_t j = first; j + (stages_ - 1 - stage) < cuts_; ++j) {
      for (std::size_t i = j; i-- > stage;) {
        // Longer runs only compute longer.
        if (costs_.compute_s(own, i, j) >= after[j]) break;
        if (before[i] == kUnreachable || !costs_.allowed(own, i, j)) continue;
        const double period = std::max(before[i], costs_.stage_s(own, i, j, in, out));
        if (period >= after[j]) continue;
        after[j] = period;
        from[j] = static_cast<std::uint16_t>(i);
      }
    }
    return after;
  }

  const CostModel& costs_;
  const std::span<const std::size_t> class_of_;
  const std::size_t stages_;
  const std::size_t cuts_;
  std::vector<std::vector<std::uint16_t>> from_;  // by stage and cut: where the stage begins
};

}  // namespace

Placement place_in_order(const CostModel& costs, std::span<const std::size_t> classes) {
  if (classes.empty() || classes.size() > costs.layers()) return {};
  return FixedOrderSearch(costs, classes).run();
}

}  // namespace harmonics::inline in_plan
