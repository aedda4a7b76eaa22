#include "period_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "annealing.h"
#include "candidate_periods.h"
#include "host_prices.h"
#include "layer_prices.h"
#include "node_search.h"
#include "path_search.h"
#include "share_prices.h"

namespace harmonics::inline in_plan {
namespace {

// How close the bisection of the relaxation comes. Replicated stages have so many possible periods
// that the last digits do not matter.
constexpr double kBisectionGap = 1e-7;
constexpr double kReplicatedBisectionGap = 1e-4;
// Where hosts are of many kinds, what is allowed is not known so exactly.
constexpr double kManyKindsBisectionGap = 1e-3;
constexpr double kManyKindsSweepGap = 1e-3;
constexpr std::size_t kManyPeriods = 1'000;
// Likewise for prices on layers, and for all but the widest search by them.
constexpr double kLayerGap = 1e-3;
// Bounds may take this share of the budget; the rest is for plans.
constexpr double kBoundShare = 0.4;
// Where plans are changed step by step at the end, that takes this share.
constexpr double kAnnealingShare = 0.5;
// Of that, this share of the whole is for a better bound.
constexpr double kRaiseShare = 0.15;
constexpr double kRaiseGap = 5e-4;
// Widths of the searches, one after the other: by number of stages, and node by node.
constexpr std::array<std::size_t, 4> kWidths = {256, 2048, 16384, 65536};
constexpr std::array<std::size_t, 4> kReplicatedWidths = {8, 64, 512, 4096};
constexpr std::array<std::size_t, 4> kManyKindsWidths = {16, 128, 512, 2048};
// Prices guide searches up to a period that is longer by this share.
constexpr double kGuidesReach = 0.05;
constexpr int kQuickTries = 24;
constexpr double kQuickFactor = 1.25;
constexpr std::size_t kQuickWidth = 16;
// Where stage times are too many to list, a grid between the bounds stands in for them.
constexpr int kGridPoints = 64;
constexpr double kGridGap = 1e-5;
// Smaller positive periods are not told from 0.
constexpr double kLeastPeriod = 1e-15;

// One search; see find_least_period.
class PeriodSearch {
 public:
  PeriodSearch(const PeriodQuestion& question, WorkBudget& budget)
      : builder_(question.builder),
        replicate_(question.replicate),
        widths_(question.replicate ? kReplicatedWidths
                : many_kinds()     ? kManyKindsWidths
                                   : kWidths),
        budget_(budget),
        pricing_(question.builder.capacity(), budget),
        layers_(question.builder.capacity(), budget) {
    if (!question.known.empty()) accept(question.known);
  }

  PeriodResult run() {
    // A period whose graph is past its ceiling cannot be tried; what is known holds.
    if (!as_far_as_it_goes([&] { search(); })) {
      if (result_.placement.empty()) take_one_host();
      if (result_.placement.empty()) throw Error(*too_large_);
    }
    improve();
    as_far_as_it_goes([&] { raise_bound(); });
    return std::move(result_);
  }

 private:
  // False where a graph would be past its ceiling.
  template <typename Step>
  bool as_far_as_it_goes(Step&& step) {
    try {
      step();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kResourceExhausted) throw;
      too_large_ = error;
      return false;
    }
    return true;
  }

  void search() {
    if (many_kinds()) find_quickly();
    if (!bracket_relaxation()) return;
    bisect_relaxation();
    climb();
    if (result_.placement.empty() && !find_any()) return;
    if (layered_) raise_bound_by_layers();
    for (const std::size_t width : widths_) {
      unknown_s_ = 0;
      while (!result_.proven && !out_of_work() && sweep(width)) {
      }
    }
  }

  // Searches leave a part of the work for changes of the plan that they found; not those that know
  // what hosts left over are good for, which find more by themselves.
  bool out_of_work() const { return budget_.spent_share(anneals() ? 1 - kAnnealingShare : 1.0); }
  bool anneals() const { return replicate_ && !builder_.ordered() && !layered_; }

  bool raises() const { return anneals() && !many_kinds(); }

  void improve() {
    if (!anneals() || result_.proven || result_.placement.empty()) return;
    const double share = raises() ? 1 - kRaiseShare : 1.0;
    if (budget_.spent_share(share)) return;
    const auto left =
        static_cast<std::uint64_t>(share * static_cast<double>(budget_.limit())) - budget_.spent();
    std::span<const double> price;
    if (result_.proof) price = result_.proof->price;
    accept(anneal({.builder = builder_,
                   .replicate = replicate_,
                   .known = result_.placement,
                   .lower_bound_s = result_.lower_bound_s,
                   .price = price,
                   .work = left},
                  budget_));
    if (result_.period_s <= result_.lower_bound_s * (1 + kTimeTolerance)) settle();
  }

  // Bisects between the bound and the plan once more, with prices that know of whole shares.
  void raise_bound() {
    if (!raises() || result_.proven || result_.placement.empty()) return;
    SharePricing pricing(builder_.capacity(), budget_);
    double open_s = result_.period_s;
    while (refuted_s_ > 0 && open_s > refuted_s_ * (1 + kRaiseGap) && !budget_.exhausted()) {
      const double middle = std::sqrt(refuted_s_ * open_s);
      std::optional<PeriodProof> proof = pricing.refute(graph_for(middle), middle);
      if (!proof) {
        open_s = middle;
        continue;
      }
      refute(middle, nullptr);
      result_.proof = std::move(proof);
    }
  }

  // The same with prices on layers. What hosts earn at a period tells about where the answer turns.
  void raise_bound_by_layers() {
    double open_s = std::min(open_to_layers_s_, result_.period_s);
    double step = kLayerGap;
    while (refuted_s_ > 0 && open_s > refuted_s_ * (1 + kLayerGap) && !out_of_work()) {
      step *= 2;
      const double guess = std::max(layers_.guess_s(), refuted_s_ * (1 + step));
      const double middle = std::min(std::sqrt(refuted_s_ * open_s), guess);
      if (!layers_refute(middle)) open_s = middle;
    }
    open_to_layers_s_ = 0;
  }

  // Whether prices on layers show that no plan has this period.
  bool layers_refute(double period_s) {
    const StageGraph graph =
        builder_.build({.period_s = period_s, .replicate = true, .only_best = false});
    budget_.charge(graph.work);
    std::optional<LayerProof> proof = layers_.refute(graph, period_s, host_price_);
    if (!proof) return false;
    refute(period_s, nullptr);
    result_.layer_proof = std::move(proof);
    return true;
  }

  bool many_kinds() const { return builder_.costs().classes() > kFewClasses; }

  StageGraph graph_for(double period_s) {
    StageGraph graph = builder_.build({.period_s = period_s, .replicate = replicate_});
    budget_.charge(graph.work);
    return graph;
  }

  void accept(Placement placement) {
    const double period = period_of(builder_.costs(), placement);
    if (!result_.placement.empty() && period >= result_.period_s) return;
    result_.period_s = period;
    result_.placement = std::move(placement);
  }

  // No plan has this period; the prices say why when the relaxation showed it.
  void refute(double period_s, const Relaxation* relaxation) {
    refuted_s_ = std::max(refuted_s_, period_s);
    result_.lower_bound_s = std::max(result_.lower_bound_s, period_s);
    if (relaxation == nullptr) return;
    if (result_.proof && result_.proof->period_s >= period_s) return;
    result_.proof = PeriodProof{period_s, relaxation->proof.price};
  }

  // Whether there is a plan with this period, as far as a search of this width can tell.
  SearchVerdict try_period(double period_s, std::size_t width) {
    const StageGraph graph = graph_for(period_s);
    if (layered_ && period_s >= allowed_s_) return try_layers(graph, period_s, width);
    if (!guides_.empty() && period_s >= guides_s_ && period_s <= guides_s_ * (1 + kGuidesReach)) {
      guide(graph);
      const PathQuestion question{graph, builder_.capacity(), guides_, width};
      return conclude(graph, period_s, search_path(question, budget_));
    }
    const Relaxation relaxation = pricing_.solve(graph, RelaxationDepth::kBestPrices);
    if (!relaxation.feasible) {
      refute(period_s, &relaxation);
      return SearchVerdict::kNone;
    }
    if (relaxation.path) {
      accept(placement_of(graph, *relaxation.path));
      return SearchVerdict::kFound;
    }
    if (replicate_ && layers_.affords(graph)) {
      host_price_ = relaxation.prices.back().price;
      layered_ = true;
      return try_layers(graph, period_s, width);
    }
    if (guides_last() && (guides_.empty() || period_s < guides_s_)) {
      guides_ = relaxation.prices;
      guides_s_ = period_s;
    }
    const PathQuestion question{graph, builder_.capacity(), relaxation.prices, width};
    return conclude(
        graph, period_s,
        replicate_ ? search_by_node(question, budget_) : search_path(question, budget_));
  }

  // Whether prices of a period close below guide a search as well, without another relaxation.
  bool guides_last() const {
    return many_kinds() && !replicate_ && builder_.costs().classes() <= kMostRowClasses;
  }

  void guide(const StageGraph& graph) {
    for (HostPrices& prices : guides_) cheapest_way(graph, prices.price, prices.to_go, budget_);
  }

  // The same by prices on layers, which bound what hosts left over are good for.
  SearchVerdict try_layers(const StageGraph& graph, double period_s, std::size_t width) {
    if (period_s < open_to_layers_s_) {
      if (layers_refute(period_s)) return SearchVerdict::kNone;
      open_to_layers_s_ = period_s;
    }
    PathQuestion question{graph, builder_.capacity(), {}, width};
    question.earnings = &layers_.earnings_for(graph);
    return conclude(graph, period_s, search_by_node(question, budget_));
  }

  SearchVerdict conclude(const StageGraph& graph, double period_s, const SearchResult& found) {
    if (found.verdict == SearchVerdict::kFound) accept(placement_of(graph, found.path));
    if (found.verdict == SearchVerdict::kNone) refute(period_s, nullptr);
    return found.verdict;
  }

  // A plan that is not too bad, without the relaxation: from the period of full use upwards, with
  // the same price for every host.
  void find_quickly() {
    double period = ideal_period();
    if (!(period > 0)) return;
    for (int k = 0; k < kQuickTries && result_.placement.empty() && !budget_.exhausted(); ++k) {
      const StageGraph graph = graph_for(period);
      double hosts = 0;
      for (const std::uint16_t count : builder_.capacity()) hosts += count;
      HostPrices prices{std::vector<double>(builder_.capacity().size(), 1 / hosts), {}};
      if (cheapest_way(graph, prices.price, prices.to_go, budget_) <= 1) {
        const SearchResult found =
            search_path({graph, builder_.capacity(), std::span(&prices, 1), kQuickWidth}, budget_);
        if (found.verdict == SearchVerdict::kFound) accept(placement_of(graph, found.path));
      }
      period *= kQuickFactor;
    }
  }

  // One host for all layers, if one can hold them.
  void take_one_host() {
    const std::size_t layers = builder_.costs().layers();
    for (std::size_t u = 0; u < builder_.capacity().size(); ++u) {
      if (builder_.capacity()[u] == 0 || !builder_.costs().allowed(u, 0, layers)) continue;
      accept({{0, layers, u, 1}});
    }
  }

  // The first plan, however slow. Without one, `proven` tells whether there is none. Where all
  // stages are too many for a graph: one host for all layers, if one can hold them.
  bool find_any() {
    bool found = false;
    if (as_far_as_it_goes([&] { found = find_with_any_period(); })) return found;
    take_one_host();
    if (result_.placement.empty()) throw Error(*too_large_);
    return true;
  }

  bool find_with_any_period() {
    for (const std::size_t width : widths_) {
      const SearchVerdict verdict = try_period(kAnyPeriod, width);
      if (verdict == SearchVerdict::kFound) return true;
      if (verdict == SearchVerdict::kNone) result_.proven = true;
      if (verdict == SearchVerdict::kNone || budget_.exhausted()) return false;
    }
    return false;
  }

  // About where the answer lies: all hosts busy all the time.
  double ideal_period() const {
    const CostModel& costs = builder_.costs();
    double rate = 0;
    for (std::size_t u = 0; u < costs.classes(); ++u) {
      const double whole = costs.compute_s(u, 0, costs.layers());
      if (whole > 0) rate += builder_.capacity()[u] / whole;
    }
    return rate > 0 ? 1 / rate : 0;
  }

  // Longer than every stage that can be.
  double longest_stage() const {
    const CostModel& costs = builder_.costs();
    double most = 0;
    for (std::size_t u = 0; u < costs.classes(); ++u) {
      double transfer = 0;
      for (std::size_t v = 0; v < costs.classes(); ++v) {
        const double bandwidth = costs.end_bandwidth(u, v);
        if (!(bandwidth > 0)) continue;
        for (std::size_t cut = 1; cut < costs.layers(); ++cut) {
          transfer = std::max(transfer, costs.transfer_s(cut, bandwidth));
        }
      }
      most = std::max(most, costs.compute_s(u, 0, costs.layers()) + 2 * transfer);
    }
    return most;
  }

  // Finds a period that the relaxation refutes and one, not much larger, that it allows; false when
  // it refutes all. Small periods have small graphs, so it comes from below.
  bool bracket_relaxation() {
    const double longest = longest_stage();
    double period = std::min(ideal_period(), longest);
    while (period > kLeastPeriod && !budget_.spent_share(kBoundShare)) {
      if (relaxation_refutes(period)) break;
      period = allowed_s_ / 4;
    }
    while (allowed_s_ == kAnyPeriod && period < longest && !budget_.spent_share(kBoundShare)) {
      period = std::max(period, kLeastPeriod) * 1.5;
      static_cast<void>(relaxation_refutes(period));
    }
    if (allowed_s_ < kAnyPeriod || !refutes_all()) return true;
    result_.proven = true;
    return false;
  }

  // Whether the relaxation refutes every period; not, where it cannot be asked.
  bool refutes_all() {
    bool refuted = false;
    as_far_as_it_goes([&] { refuted = relaxation_refutes(kAnyPeriod); });
    return refuted;
  }

  // Finds where the relaxation turns from refuting periods to allowing them.
  void bisect_relaxation() {
    const double gap = many_kinds() ? kManyKindsBisectionGap
                       : replicate_ ? kReplicatedBisectionGap
                                    : kBisectionGap;
    while (refuted_s_ > 0 && allowed_s_ < kAnyPeriod && allowed_s_ > refuted_s_ * (1 + gap) &&
           !budget_.spent_share(kBoundShare)) {
      const double middle = next_period();
      if (middle <= refuted_s_ || middle >= allowed_s_) return;
      static_cast<void>(relaxation_refutes(middle));
    }
  }

  // Half way between what is refuted and what is allowed. Where prices are
  // found softly, a period times what the cheapest path costs there is a good
  // guess of where the answer turns.
  double next_period() const {
    const double middle = std::sqrt(refuted_s_ * allowed_s_);
    if (!many_kinds() || guess_s_ <= 0) return middle;
    const double edge = std::sqrt(std::sqrt(allowed_s_ / refuted_s_));
    return std::clamp(guess_s_, refuted_s_ * std::min(edge, 1 + kManyKindsBisectionGap / 2),
                      allowed_s_ / std::min(edge, 1 + kManyKindsBisectionGap / 2));
  }

  bool relaxation_refutes(double period_s) {
    const StageGraph graph = graph_for(period_s);
    const Relaxation relaxation = pricing_.solve(graph, RelaxationDepth::kAnswer);
    guess_s_ = relaxation.feasible ? period_s * relaxation.cost : 0;
    if (!relaxation.feasible) {
      refute(period_s, &relaxation);
      return true;
    }
    allowed_s_ = std::min(allowed_s_, period_s);
    if (relaxation.path) {
      accept(placement_of(graph, *relaxation.path));
      allowed_s_ = std::min(allowed_s_, result_.period_s);
    }
    return false;
  }

  // A good plan is usually close above what the relaxation allows.
  void climb() {
    const double first_step = replicate_ ? 1e-3 : 1e-4;
    for (double step = 0; !out_of_work(); step = step == 0 ? first_step : step * 4) {
      const double period = allowed_s_ * (1 + step);
      if (period >= kAnyPeriod || period <= kLeastPeriod) return;
      if (!result_.placement.empty() && period >= result_.period_s) return;
      if (try_period(period, widths_[0]) == SearchVerdict::kFound) return;
    }
  }

  // The periods that are still in question, ascending.
  std::vector<double> open_periods() {
    std::optional<std::vector<double>> listed =
        candidate_periods(builder_, replicate_, refuted_s_, result_.period_s, budget_);
    if (listed) {
      if (refuted_s_ == 0 && result_.period_s > 0) listed->insert(listed->begin(), 0.0);
      if (listed->empty()) settle();
      if (!listed->empty()) {
        result_.lower_bound_s = std::max(result_.lower_bound_s, listed->front());
      }
      return std::move(*listed);
    }
    std::vector<double> grid;
    const double low = std::max(refuted_s_, result_.period_s * 1e-9);
    const double ratio = result_.period_s / low;
    if (ratio < 1 + kGridGap) return grid;
    for (int k = 1; k < kGridPoints; ++k) {
      grid.push_back(low * std::pow(ratio, static_cast<double>(k) / kGridPoints));
    }
    return grid;
  }

  // All smaller periods are refuted.
  void settle() {
    result_.proven = true;
    result_.lower_bound_s = result_.period_s;
  }

  // How close open periods are that are left to a search of more width, or to none.
  double fineness(std::size_t periods, std::size_t width) const {
    if (many_kinds()) return periods > kManyPeriods ? kManyKindsSweepGap : 0;
    return layered_ && width < widths_.back() ? kLayerGap : 0;
  }

  // Bisects the open periods; true when that taught something new.
  bool sweep(std::size_t width) {
    const std::vector<double> open = open_periods();
    auto first = std::ranges::upper_bound(open, unknown_s_);
    guides_.clear();
    auto last = open.end();
    bool learned = false;
    // The widest search has no time for it, and goes by other prices than those before.
    bool lowest = !guides_last() || width < widths_.back();
    while (first < last && !out_of_work()) {
      // Periods that are as good as equal are not worth the search, where they are many.
      if (*(last - 1) < *first * (1 + fineness(open.size(), width))) break;
      // The lowest one is worth a try of its own: often it is the answer.
      const auto middle = lowest ? first : first + (last - first) / 2;
      lowest = false;
      const SearchVerdict verdict = try_period(*middle, width);
      learned |= verdict != SearchVerdict::kUnknown;
      if (verdict == SearchVerdict::kFound) {
        last = middle;
      } else {
        if (verdict == SearchVerdict::kUnknown) unknown_s_ = std::max(unknown_s_, *middle);
        first = middle + 1;
      }
    }
    if (!learned || out_of_work()) open_periods();  // sharpens the bound
    return learned;
  }

  const StageGraphBuilder& builder_;
  const bool replicate_;
  const std::array<std::size_t, 4>& widths_;
  WorkBudget& budget_;
  HostPricing pricing_;
  LayerPricing layers_;
  PeriodResult result_;
  double refuted_s_ = 0;            // no plan has this period or less; 0: nothing refuted
  double allowed_s_ = kAnyPeriod;   // the least period that the relaxation is known to allow
  double guess_s_ = 0;              // where the relaxation may turn; 0: unknown
  std::vector<HostPrices> guides_;  // where kinds are many, of the lowest period of this width
  double guides_s_ = 0;
  bool layered_ = false;                  // prices on layers bound the searches
  std::vector<double> host_price_;        // from which they began
  double open_to_layers_s_ = kAnyPeriod;  // from there on they are as good as they get
  std::optional<Error> too_large_;
  double unknown_s_ = 0;  // the largest period that the present width could not decide
};

}  // namespace

PeriodResult find_least_period(const PeriodQuestion& question, WorkBudget& budget) {
  return PeriodSearch(question, budget).run();
}

bool relaxation_rules_out(const StageGraphBuilder& builder, double period_s, WorkBudget& budget) {
  try {
    const StageGraph graph = builder.build({.period_s = period_s});
    budget.charge(graph.work);
    return !HostPricing(builder.capacity(), budget).solve(graph, RelaxationDepth::kAnswer).feasible;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResourceExhausted) throw;
    return false;
  }
}

Placement placement_of(const StageGraph& graph, std::span<const std::uint32_t> path) {
  Placement placement;
  std::size_t cut = 0;
  for (const std::uint32_t index : path) {
    const StageArc& arc = graph.arcs[index];
    if (arc.host_class == kNoHostClass) continue;
    const auto end = static_cast<std::size_t>(graph.cut[static_cast<std::size_t>(arc.to)]);
    placement.push_back({cut, end, arc.host_class, arc.hosts});
    cut = end;
  }
  return placement;
}

}  // namespace harmonics::inline in_plan
