#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <harmonics/base/random.h>
#include <harmonics/plan/flow_plan.h>
#include <harmonics/plan/planner.h>

#include "soft_flow.h"

namespace harmonics::inline in_plan {
namespace {

using Ranges = std::vector<FlowRange>;

// Where there are no more placements than this, all are looked at.
constexpr double kMostPlacements = 200'000;
// How much worse a placement may become at first, as a share; at the end nothing.
constexpr double kFirstHeat = 0.05;
constexpr double kAgainHeat = 0.02;
constexpr std::uint64_t kMovesPerHost = 3'000;
constexpr std::uint64_t kMostMoves = 200'000;
constexpr int kChainHalvings = 24;
constexpr int kSeatTrials = 40;
constexpr std::size_t kFreshOfRounds = 3;  // every third round goes on from the best
constexpr std::size_t kRoundsInVain = 60;
constexpr double kBetter = 1 + 1e-9;

// Changes of a placement which keep ends meeting, kept with a probability that falls with time.
class FlowAnnealer {
 public:
  FlowAnnealer(const FlowProblem& problem, std::uint64_t work)
      : problem_(problem), limit_(work), flow_(problem), random_(random_key(0, "flow")) {}

  const Ranges& best() const { return best_; }
  double best_rate() const { return best_rate_; }
  std::uint64_t work() const { return flow_.work() + work_; }

  void consider(const Ranges& ranges) {
    const double rate = flow_.evaluate(ranges, true).rate;
    if (best_.empty() || rate > best_rate_ * kBetter) {
      best_ = ranges;
      best_rate_ = rate;
    }
  }

  // All of them, where they are few.
  bool look_at_all() {
    std::vector<Ranges> choices;
    double count = 1;
    for (const FlowHost& host : problem_.hosts) {
      choices.push_back(ranges_of(host.kind));
      count *= static_cast<double>(choices.back().size());
      if (count > kMostPlacements) return false;
    }
    Ranges at(problem_.hosts.size());
    std::vector<std::size_t> chosen(problem_.hosts.size(), 0);
    for (std::size_t done = 0; done < choices.size();) {
      for (std::size_t h = 0; h < at.size(); ++h) at[h] = choices[h][chosen[h]];
      consider(at);
      for (done = 0; done < choices.size() && ++chosen[done] == choices[done].size(); ++done) {
        chosen[done] = 0;
      }
    }
    return true;
  }

  void run(double enough) {
    std::size_t in_vain = 0;
    for (std::size_t round = 0; flow_.work() + work_ < limit_ && best_rate_ < enough; ++round) {
      const bool again = best_rate_ > 0 && round % kFreshOfRounds == kFreshOfRounds - 1;
      const double before = best_rate_;
      anneal(again ? best_ : fresh(), again ? kAgainHeat : kFirstHeat);
      in_vain = best_rate_ > before ? 0 : in_vain + 1;
      if (in_vain == kRoundsInVain && best_rate_ > 0) return;
    }
  }

 private:
  Ranges ranges_of(std::size_t kind) const {
    Ranges ranges{{}};
    for (std::size_t i = 0; i < problem_.layers; ++i) {
      for (std::size_t j = i + 1; j <= problem_.layers; ++j) {
        if (problem_.rate(kind, i, j) > 0) ranges.push_back({i, j});
      }
    }
    return ranges;
  }

  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_.below(bound)); }
  double rate_of(std::size_t host, FlowRange range) const {
    return range.last_cut > problem_.layers
               ? 0
               : problem_.rate(problem_.hosts[host].kind, range.first_cut, range.last_cut);
  }
  bool fits(std::size_t host, FlowRange range) const { return rate_of(host, range) > 0; }

  // The last cut to which a host passes this much.
  std::size_t reach(std::size_t host, std::size_t cut, double rate) const {
    std::size_t last = cut;
    for (std::size_t j = cut + 1; j <= problem_.layers; ++j) {
      const double here = rate_of(host, {cut, j});
      if (here <= 0 && last > cut) break;
      if (here > 0 && here >= rate) last = j;
    }
    return last;
  }

  std::size_t chain_end(std::span<const std::size_t> order, double rate) const {
    std::size_t cut = 0;
    for (const std::size_t host : order) {
      if (cut == problem_.layers) break;
      cut = reach(host, cut, rate);
    }
    return cut;
  }

  // A chain over hosts in any order, the others beside them.
  Ranges fresh() {
    std::vector<std::size_t> order(problem_.hosts.size());
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[below(k)]);
    double low = 0;
    double high = 0;
    for (std::size_t h = 0; h < order.size(); ++h) {
      for (std::size_t l = 0; l < problem_.layers; ++l) {
        high = std::max(high, rate_of(h, {l, l + 1}));
      }
    }
    for (int k = 0; k < kChainHalvings; ++k) {
      const double middle = (low + high) / 2;
      (chain_end(order, middle) == problem_.layers ? low : high) = middle;
    }
    const double rate = low * (0.4 + 0.6 * random_.uniform());
    Ranges ranges(order.size());
    std::vector<std::size_t> chain;
    std::size_t cut = 0;
    for (const std::size_t host : order) {
      const std::size_t last = cut < problem_.layers ? reach(host, cut, rate) : cut;
      if (last > cut) {
        ranges[host] = {cut, last};
        cut = last;
        chain.push_back(host);
      } else {
        ranges[host] = seat_beside(host, ranges, chain);
      }
      work_ += problem_.layers;
    }
    return ranges;
  }

  FlowRange seat_beside(std::size_t host, const Ranges& ranges,
                        std::span<const std::size_t> chain) {
    for (int k = 0; k < kSeatTrials && !chain.empty(); ++k) {
      const FlowRange range = ranges[chain[below(chain.size())]];
      if (fits(host, range)) return range;
    }
    return {};
  }

  void anneal(Ranges ranges, double heat) {
    SoftFlow::Value value = flow_.evaluate(ranges);
    consider(ranges);
    const std::uint64_t moves =
        std::min(kMostMoves, kMovesPerHost * static_cast<std::uint64_t>(ranges.size()));
    Ranges next;
    for (std::uint64_t k = 0; k < moves && flow_.work() + work_ < limit_; ++k) {
      const double left = 1 - static_cast<double>(k) / static_cast<double>(moves);
      next = ranges;
      ++work_;
      if (!change(next)) continue;
      const SoftFlow::Value then = flow_.evaluate(next);
      if (!keeps(value.soft, then.soft, heat * left * left)) continue;
      std::swap(ranges, next);
      value = then;
      if (value.rate <= best_rate_ * kBetter) continue;
      best_ = ranges;
      best_rate_ = value.rate;
    }
  }

  bool keeps(double before, double after, double heat) {
    if (after >= before) return true;
    if (after <= 0) return false;
    return random_.uniform() < std::pow(after / before, 1 / (heat + 1e-9));
  }

  bool change(Ranges& ranges) {
    const std::size_t v = below(ranges.size());
    const std::size_t w = below(ranges.size());
    const std::size_t kind = below(20);
    if (kind < 5) return move_cut(ranges, v);
    if (kind >= 16 && kind < 17) return put_between(ranges, v);
    if (kind >= 19) return put_anywhere(ranges, v);
    if (v == w) return false;
    if (kind < 9) return swap_ranges(ranges, v, w);
    if (kind < 12) return put_beside(ranges, v, w);
    if (kind < 16) return share_range(ranges, v, w);
    return grow(ranges, v, w);
  }

  // All hosts that meet at a cut, or some of them, meet elsewhere.
  bool move_cut(Ranges& ranges, std::size_t v) {
    const std::size_t cut = below(2) == 0 ? ranges[v].first_cut : ranges[v].last_cut;
    if (cut == 0 || cut >= problem_.layers) return false;
    const std::size_t far = 1 + (below(4) == 0 ? below(3) : 0);
    const bool down = below(2) == 0;
    if (down ? cut <= far : cut + far >= problem_.layers) return false;
    const std::size_t to = down ? cut - far : cut + far;
    const bool some = below(3) == 0;
    for (std::size_t h = 0; h < ranges.size(); ++h) {
      FlowRange& range = ranges[h];
      if ((range.first_cut != cut && range.last_cut != cut) || !range.used()) continue;
      if (some && h != v && below(2) == 0) continue;
      if (range.first_cut == cut) range.first_cut = to;
      if (range.last_cut == cut) range.last_cut = to;
      if (!fits(h, range)) return false;
    }
    return true;
  }

  bool swap_ranges(Ranges& ranges, std::size_t v, std::size_t w) const {
    std::swap(ranges[v], ranges[w]);
    return (!ranges[v].used() || fits(v, ranges[v])) && (!ranges[w].used() || fits(w, ranges[w]));
  }

  bool put_beside(Ranges& ranges, std::size_t v, std::size_t w) const {
    ranges[v] = ranges[w];
    return fits(v, ranges[v]);
  }

  // v takes a part of w's layers.
  bool share_range(Ranges& ranges, std::size_t v, std::size_t w) {
    FlowRange& range = ranges[w];
    if (range.last_cut < range.first_cut + 2) return false;
    const std::size_t cut = range.first_cut + 1 + below(range.last_cut - range.first_cut - 1);
    if (below(2) == 0) {
      ranges[v] = {range.first_cut, cut};
      range.first_cut = cut;
    } else {
      ranges[v] = {cut, range.last_cut};
      range.last_cut = cut;
    }
    return fits(v, ranges[v]) && fits(w, range);
  }

  bool put_between(Ranges& ranges, std::size_t v) {
    const FlowRange a = ranges[below(ranges.size())];
    const FlowRange b = ranges[below(ranges.size())];
    const std::size_t x = below(2) == 0 ? a.first_cut : a.last_cut;
    const std::size_t y = below(2) == 0 ? b.first_cut : b.last_cut;
    ranges[v] = {std::min(x, y), std::max(x, y)};
    return fits(v, ranges[v]);
  }

  bool put_anywhere(Ranges& ranges, std::size_t v) {
    const std::size_t first = below(problem_.layers);
    ranges[v] = {first, first + 1 + below(problem_.layers - first)};
    return fits(v, ranges[v]);
  }

  // v gets a layer more or less, w one less or more, and all cuts between them move along.
  bool grow(Ranges& ranges, std::size_t v, std::size_t w) {
    const std::size_t low = ranges[v].last_cut;
    const std::size_t high = ranges[w].first_cut;
    if (low == 0 || low > high || high >= problem_.layers) return false;
    const bool more = below(2) == 0;
    const auto moved = [&](std::size_t cut) {
      if (cut < low || cut > high) return cut;
      return more ? cut + 1 : cut - 1;
    };
    for (std::size_t h = 0; h < ranges.size(); ++h) {
      FlowRange& range = ranges[h];
      if (!range.used()) continue;
      range = {moved(range.first_cut), moved(range.last_cut)};
      if (!fits(h, range)) return false;
    }
    return true;
  }

  const FlowProblem& problem_;
  std::uint64_t limit_;
  SoftFlow flow_;
  Random random_;
  Ranges best_;
  double best_rate_ = 0;
  std::uint64_t work_ = 0;
};

}  // namespace

FlowOutcome plan_flow(const FlowProblem& problem, const FlowOptions& options) {
  check_flow(problem);
  FlowOutcome outcome;
  outcome.proof = bound_flow(problem);
  FlowAnnealer annealer(problem, options.work > 0 ? options.work : kDefaultFlowWork);
  for (const std::vector<FlowRange>& start : options.starts) {
    (void)evaluate_flow(problem, start);  // refuses what no host can hold
    annealer.consider(start);
  }
  const bool all = annealer.look_at_all();
  if (!all) annealer.run(outcome.proof.rate * (1 - 1e-6));
  if (!(annealer.best_rate() > 0)) {
    throw NoFeasiblePlan(all ? "no placement lets anything flow from the source to the sink"
                             : "no placement was found through which anything flows");
  }
  outcome.ranges = annealer.best();
  outcome.evaluation = evaluate_flow(problem, outcome.ranges);
  outcome.work = annealer.work();
  outcome.proven = all || outcome.rate() >= outcome.proof.rate * (1 - 1e-6);
  if (all) outcome.proof.rate = std::min(outcome.proof.rate, outcome.rate() * kBetter);
  // A host through which nothing flows is left out.
  for (std::size_t h = 0; h < outcome.ranges.size(); ++h) {
    const bool carries = std::ranges::any_of(
        outcome.evaluation.uses, [h](const FlowUse& use) { return use.from == h || use.to == h; });
    if (!carries) outcome.ranges[h] = {};
  }
  return outcome;
}

}  // namespace harmonics::inline in_plan
