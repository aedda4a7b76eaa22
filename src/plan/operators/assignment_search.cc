#include "assignment_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>

#include "load_bound.h"

namespace harmonics::inline in_plan {
namespace {

constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();
// Of the work, what looking at all assignments may take.
constexpr double kWholeShare = 0.5;
constexpr std::size_t kMostEnds = std::size_t{1} << 26;
// All assignments of more units than this are not worth a try.
constexpr std::size_t kMostWholeUnits = 64;
// How sharply the load of a host counts: close to counting the largest alone, and yet smooth.
constexpr double kSharpness = 12;

// Units on hosts, and what each host has to do.
class Assignment {
 public:
  explicit Assignment(const LatticeQuestion& question)
      : question_(question), place_(question.units.size(), kNowhere) {
    for (std::size_t d = 0; d < question.devices.size(); ++d) {
      const std::size_t most = std::min(question.devices[d].hosts, question.units.size());
      for (std::size_t k = 0; k < most; ++k) device_.push_back(d);
    }
    compute_.assign(hosts(), 0);
    memory_.assign(hosts(), 0);
    in_.assign(hosts(), 0);
    out_.assign(hosts(), 0);
    if (question.units.tensors.size() * hosts() > kMostEnds) {
      fail(ErrorCode::kResourceExhausted,
           "{} tensors and {} hosts are too many for a free split: ask for a contiguous one",
           question.units.tensors.size(), hosts());
    }
    takers_.assign(question.units.tensors.size() * hosts(), 0);
  }

  std::size_t hosts() const { return device_.size(); }
  std::size_t device(std::size_t host) const { return device_[host]; }
  std::size_t place(Unit unit) const { return place_[unit]; }
  bool may_run(Unit unit, std::size_t host) const {
    return std::isfinite(question_.units.time(unit, device_[host])) &&
           memory_[host] + question_.units.memory_mb[unit] <=
               question_.devices[device_[host]].memory_mb;
  }
  double load_s(std::size_t host) const {
    const double per_byte = question_.devices[device_[host]].s_per_byte;
    const double in = std::max(0.0, in_[host]) * per_byte;
    const double out = std::max(0.0, out_[host]) * per_byte;
    return question_.overlap == Overlap::kNone ? compute_[host] + in + out
                                               : std::max({compute_[host], in, out});
  }
  double compute_s(std::size_t host) const { return compute_[host]; }
  double longest_s() const {
    double longest = 0;
    for (std::size_t h = 0; h < hosts(); ++h) longest = std::max(longest, load_s(h));
    return longest;
  }

  void put(Unit unit, std::size_t host) { change(unit, host, 1); }
  void take(Unit unit) { change(unit, place_[unit], -1); }

  std::vector<UnitStage> stages() const {
    std::vector<UnitStage> result;
    for (std::size_t h = 0; h < hosts(); ++h) {
      UnitStage stage{device_[h], {}};
      for (Unit unit = 0; unit < place_.size(); ++unit) {
        if (place_[unit] == h) stage.units.push_back(unit);
      }
      if (!stage.units.empty()) result.push_back(std::move(stage));
    }
    return result;
  }

 private:
  void change(Unit unit, std::size_t host, int sign) {
    const UnitGraph& units = question_.units;
    compute_[host] += sign * units.time(unit, device_[host]);
    memory_[host] += sign * units.memory_mb[unit];
    for (const std::uint32_t k : units.touching[unit]) count_tensor(k, -1);
    place_[unit] = sign > 0 ? host : kNowhere;
    for (const std::uint32_t k : units.touching[unit]) {
      if (units.tensors[k].producer != unit) takers(k, host) += static_cast<std::uint32_t>(sign);
      count_tensor(k, 1);
    }
  }

  std::uint32_t& takers(std::uint32_t tensor, std::size_t host) {
    return takers_[tensor * hosts() + host];
  }

  // Adds or removes what a tensor costs all hosts at present.
  void count_tensor(std::uint32_t k, int sign) {
    const UnitTensor& tensor = question_.units.tensors[k];
    const std::size_t from = place_[tensor.producer];
    if (from == kNowhere) return;
    bool leaves = false;
    for (std::size_t h = 0; h < hosts(); ++h) {
      if (h == from || takers(k, h) == 0) continue;
      leaves = true;
      in_[h] += sign * tensor.bytes;
    }
    if (leaves) out_[from] += sign * tensor.bytes;
  }

  const LatticeQuestion& question_;
  std::vector<std::size_t> place_;
  std::vector<std::size_t> device_;
  std::vector<double> compute_, memory_, in_, out_;
  std::vector<std::uint32_t> takers_;
};

// Depth first over all assignments; hosts of a device that hold nothing yet are all alike.
class WholeSearch {
 public:
  WholeSearch(const LatticeQuestion& question, WorkBudget& budget)
      : question_(question), budget_(budget), at_(question), below_s_(question.below_s) {
    open_.assign(question.units.size() + 1, 0);
    for (Unit unit = static_cast<Unit>(question.units.size()); unit-- > 0;) {
      open_[unit] = open_[unit + 1] + least_price(question.units, unit, question.price);
    }
    below_s_ *= 1 - kSamePeriod;
  }

  LatticeAnswer run() {
    place(0);
    return {std::move(best_), period_s_, !stopped_};
  }

 private:
  // What the units that are still to come cost, against what hosts have left to sell.
  bool hopeless(Unit unit) const {
    double left = 0;
    for (std::size_t h = 0; h < at_.hosts(); ++h) {
      const double load = at_.load_s(h);
      if (load >= below_s_) return true;
      left += question_.price[at_.device(h)] * (below_s_ - at_.compute_s(h));
    }
    return open_[unit] > left + kSamePeriod * open_[0];
  }

  void place(Unit unit) {
    budget_.charge(4 + at_.hosts() * (1 + question_.units.tensors.size() / 16));
    if (budget_.spent_share(kWholeShare)) stopped_ = true;
    if (stopped_ || hopeless(unit)) return;
    if (unit == question_.units.size()) {
      period_s_ = at_.longest_s();
      below_s_ = period_s_ * (1 - kSamePeriod);
      best_ = at_.stages();
      return;
    }
    std::size_t last_empty = kNowhere;
    for (std::size_t h = 0; h < at_.hosts(); ++h) {
      const bool empty =
          std::ranges::none_of(placed_, [&](std::size_t other) { return other == h; });
      if (empty && last_empty == at_.device(h)) continue;
      if (empty) last_empty = at_.device(h);
      if (!at_.may_run(unit, h)) continue;
      at_.put(unit, h);
      placed_.push_back(h);
      place(unit + 1);
      placed_.pop_back();
      at_.take(unit);
    }
  }

  const LatticeQuestion& question_;
  WorkBudget& budget_;
  Assignment at_;
  double below_s_;
  std::vector<double> open_;
  std::vector<std::size_t> placed_;
  std::vector<UnitStage> best_;
  double period_s_ = 0;
  bool stopped_ = false;
};

// Units change hosts, mostly for the better: annealing from the plan that is known.
class Moves {
 public:
  Moves(const LatticeQuestion& question, std::span<const UnitStage> known, WorkBudget& budget)
      : question_(question), budget_(budget), at_(question), random_(1, "operator moves") {
    std::vector<std::size_t> taken(question.devices.size(), 0);
    for (const UnitStage& stage : known) {
      std::size_t host = 0;
      while (at_.device(host) != stage.device) ++host;
      host += taken[stage.device]++;
      for (const Unit unit : stage.units) at_.put(unit, host);
    }
  }

  LatticeAnswer run() {
    LatticeAnswer best{at_.stages(), at_.longest_s(), false};
    scale_s_ = best.period_s;
    if (!(scale_s_ > 0) || at_.hosts() < 2) return best;
    const std::uint64_t start = budget_.spent();
    const double span = static_cast<double>(budget_.limit() - std::min(start, budget_.limit()));
    double now = weight();
    while (!budget_.exhausted()) {
      const double done = static_cast<double>(budget_.spent() - start) / span;
      const double heat = 0.3 * now * (1 - done) * (1 - done);
      const auto unit = static_cast<Unit>(random_.below(question_.units.size()));
      const std::size_t from = at_.place(unit);
      const std::size_t to = target(unit);
      budget_.charge(20 + 8 * at_.hosts() * (1 + question_.units.touching[unit].size()));
      if (to == from || !at_.may_run(unit, to)) continue;
      at_.take(unit);
      at_.put(unit, to);
      const double then = weight();
      const bool keep = then <= now || static_cast<double>(random_.uniform()) <
                                           std::exp((now - then) / std::max(heat, 1e-300));
      if (!keep) {
        at_.take(unit);
        at_.put(unit, from);
        continue;
      }
      now = then;
      const double longest = at_.longest_s();
      if (longest < best.period_s * (1 - kSamePeriod)) {
        best.period_s = longest;
        best.stages = at_.stages();
      }
    }
    return best;
  }

 private:
  // Mostly where a neighbour is.
  std::size_t target(Unit unit) {
    const auto& touching = question_.units.touching[unit];
    if (touching.empty() || random_.below(8) == 0) {
      return static_cast<std::size_t>(random_.below(at_.hosts()));
    }
    const UnitTensor& tensor = question_.units.tensors[touching[random_.below(touching.size())]];
    const std::uint64_t end = random_.below(tensor.consumers.size() + 1);
    return at_.place(end == 0 ? tensor.producer : tensor.consumers[end - 1]);
  }

  double weight() const {
    double sum = 0;
    for (std::size_t h = 0; h < at_.hosts(); ++h) {
      sum += std::pow(at_.load_s(h) / scale_s_, kSharpness);
    }
    return sum;
  }

  const LatticeQuestion& question_;
  WorkBudget& budget_;
  Assignment at_;
  Random random_;
  double scale_s_ = 1;
};

}  // namespace

LatticeAnswer search_assignments(const LatticeQuestion& question, std::span<const UnitStage> known,
                                 WorkBudget& budget) {
  LatticeAnswer all;
  if (question.units.size() <= kMostWholeUnits) all = WholeSearch(question, budget).run();
  if (all.whole) return all;
  const std::vector<UnitStage> start =
      all.stages.empty() ? std::vector<UnitStage>(known.begin(), known.end()) : all.stages;
  if (start.empty()) return all;
  return Moves(question, start, budget).run();
}

}  // namespace harmonics::inline in_plan
