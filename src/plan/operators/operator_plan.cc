#include <harmonics/plan/operator_plan.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/plan/planner.h>

#include "assignment_search.h"
#include "ideal_lattice.h"
#include "lattice_search.h"
#include "load_bound.h"
#include "unit_graph.h"
#include "unit_orders.h"

namespace harmonics::inline in_plan {
namespace {

// Beginnings of orders that are looked at together hold this many words at most.
constexpr std::size_t kMostOrderWords = std::size_t{1} << 23;
constexpr std::size_t kOrdersAtOnce = 16;
// Rounds of new orders that bring nothing before the search ends.
constexpr int kIdleRounds = 40;
// Of the work, what a free split leaves for the contiguous one that it starts from.
constexpr std::uint64_t kContiguousShare = 2;

// Longer than any plan takes.
double longer_than_all(const UnitGraph& units, std::span<const DeviceLimits> devices) {
  double slowest = 0;
  for (const DeviceLimits& device : devices) slowest = std::max(slowest, device.s_per_byte);
  double sum = 1;
  for (const double seconds : units.time_s) {
    if (std::isfinite(seconds)) sum += seconds;
  }
  for (const UnitTensor& tensor : units.tensors) sum += 2 * tensor.bytes * slowest;
  return sum;
}

class OperatorPlanner {
 public:
  OperatorPlanner(const OperatorGraph& graph, const OperatorPlanOptions& options)
      : graph_(graph),
        options_(options),
        units_(make_units(graph, options.split)),
        devices_(device_limits(graph)),
        budget_(options.work > 0 ? options.work : kDefaultOperatorWork) {}

  OperatorOutcome run() {
    refuse_lonely_units();
    outcome_.units = units_.size();
    outcome_.proof = bound_load(make_units(graph_, OperatorSplit::kFree), devices_);
    best_s_ = longer_than_all(units_, devices_);
    bound_s_ = std::max(outcome_.proof.bound_s, longest_unit_s(units_, devices_));
    if (options_.split == OperatorSplit::kFree) {
      find_free();
    } else {
      find_contiguous();
    }
    if (best_.empty()) throw NoFeasiblePlan(explain());
    finish();
    return std::move(outcome_);
  }

 private:
  LatticeQuestion question() const {
    return {units_, devices_, options_.overlap, outcome_.proof.price, best_s_};
  }

  void keep(LatticeAnswer answer) {
    if (answer.stages.empty() || answer.period_s >= best_s_) return;
    best_ = std::move(answer.stages);
    best_s_ = answer.period_s;
  }

  bool reached_bound() const { return best_s_ <= bound_s_ * (1 + kSamePeriod); }

  void find_contiguous() {
    keep(search_lattice(IdealLattice::of_orders(units_, some_orders()), question(), budget_));
    const std::optional<IdealLattice> lattice = IdealLattice::whole(units_, kMaxIdeals);
    if (lattice) {
      outcome_.ideals = lattice->size();
      LatticeAnswer answer = search_lattice(*lattice, question(), budget_);
      whole_ = answer.whole;
      keep(std::move(answer));
    }
    if (!whole_) improve_orders();
  }

  std::vector<std::vector<Unit>> some_orders() const {
    std::vector<std::vector<Unit>> orders = plain_orders(units_);
    orders.resize(std::min(orders.size(), most_orders()));
    return orders;
  }
  std::size_t most_orders() const {
    const std::size_t words = units_.size() * ((units_.size() + 63) / 64) + 1;
    return std::clamp<std::size_t>(kMostOrderWords / words, 1, kOrdersAtOnce);
  }

  // New orders close to the best plan, all of them together a small lattice.
  void improve_orders() {
    Random random(1, "operator orders");
    constexpr double kSpreads[] = {0.5, 1, 1.5, 2.5};
    for (int idle = 0, round = 0; idle < kIdleRounds && !budget_.exhausted() && !reached_bound();
         ++idle, ++round) {
      std::vector<std::vector<Unit>> orders;
      orders.push_back(order_near(units_, best_, 0, random));
      while (orders.size() < most_orders()) {
        orders.push_back(order_near(units_, best_, kSpreads[round % 4], random));
      }
      const double before = best_s_;
      keep(search_lattice(IdealLattice::of_orders(units_, orders), question(), budget_));
      if (best_s_ < before) idle = 0;
    }
  }

  // From the best contiguous split on.
  void find_free() {
    start_contiguous();
    if (reached_bound()) return;
    LatticeAnswer answer = search_assignments(question(), best_, budget_);
    whole_ = answer.whole;
    keep(std::move(answer));
  }

  void start_contiguous() {
    OperatorPlanOptions first = options_;
    first.split = OperatorSplit::kContiguous;
    first.work = budget_.limit() / kContiguousShare;
    try {
      const OperatorOutcome found = plan_operators(graph_, first);
      budget_.charge(found.work);
      best_s_ = found.period_s;
      std::vector<Unit> unit_of(graph_.nodes.size());
      for (Unit unit = 0; unit < units_.size(); ++unit) {
        for (const std::size_t node : units_.nodes[unit]) unit_of[node] = unit;
      }
      for (const OperatorStage& stage : found.stages) {
        std::set<Unit> own;
        for (const std::size_t node : stage.nodes) own.insert(unit_of[node]);
        best_.push_back({stage.device, {own.begin(), own.end()}});
      }
    } catch (const NoFeasiblePlan&) {
      // A free one may yet be possible.
    }
  }

  void finish() {
    std::vector<std::size_t> taken(devices_.size(), 0);
    if (options_.split == OperatorSplit::kFree) {
      std::ranges::stable_sort(best_, {}, &UnitStage::device);
    }
    for (const UnitStage& stage : best_) {
      OperatorStage own{stage.device, taken[stage.device]++, {}};
      for (const Unit unit : stage.units) {
        own.nodes.insert(own.nodes.end(), units_.nodes[unit].begin(), units_.nodes[unit].end());
      }
      std::ranges::sort(own.nodes);
      outcome_.stages.push_back(std::move(own));
    }
    outcome_.period_s = operator_period(graph_, options_.overlap, outcome_.stages);
    outcome_.proven = whole_ || outcome_.period_s <= bound_s_ * (1 + kSamePeriod);
    outcome_.lower_bound_s = outcome_.proven ? outcome_.period_s : bound_s_;
    const bool free = options_.split == OperatorSplit::kFree;
    outcome_.method =
        whole_ ? (free ? OperatorMethod::kWholeAssignments : OperatorMethod::kWholeLattice)
               : (free ? OperatorMethod::kMoves : OperatorMethod::kOrders);
    outcome_.work = budget_.spent();
  }

  std::string unit_name(Unit unit) const {
    const auto& nodes = units_.nodes[unit];
    const std::string& first = graph_.nodes[nodes.front()].name;
    return nodes.size() == 1
               ? format("operator '{}'", first)
               : format("operator '{}' with the {} that must be with it", first, nodes.size() - 1);
  }

  // A unit that no host can run by itself makes a plan impossible, and is named.
  void refuse_lonely_units() const {
    for (Unit unit = 0; unit < units_.size(); ++unit) {
      bool runs = false, fits = false;
      for (std::size_t d = 0; d < devices_.size(); ++d) {
        if (devices_[d].hosts == 0 || !std::isfinite(units_.time(unit, d))) continue;
        runs = true;
        fits = fits || units_.memory_mb[unit] <= devices_[d].memory_mb;
      }
      if (!runs) {
        throw NoFeasiblePlan(format("no feasible plan: no host can run {}", unit_name(unit)));
      }
      if (!fits) {
        throw NoFeasiblePlan(format(
            "no feasible plan: memory: {} needs {:.1f} MB, more than any host that can run it has",
            unit_name(unit), units_.memory_mb[unit]));
      }
    }
  }

  std::string explain() const {
    if (!whole_) {
      return "no feasible plan was found within the work allowed; there may be one: --work allows "
             "more";
    }
    double all = 0;
    for (const double one : units_.memory_mb) all += one;
    double there = 0;
    for (const DeviceLimits& device : devices_) {
      there += device.memory_mb * static_cast<double>(device.hosts);
    }
    return format(
        "no feasible plan: no split of {} groups of operators fits the hosts (they need {:.1f} MB "
        "together, the hosts have {:.1f} MB){}",
        units_.size(), all, there,
        options_.split == OperatorSplit::kFree ? "" : "; a free split may (--split free)");
  }

  const OperatorGraph& graph_;
  const OperatorPlanOptions& options_;
  const UnitGraph units_;
  const std::vector<DeviceLimits> devices_;
  WorkBudget budget_;
  OperatorOutcome outcome_;
  std::vector<UnitStage> best_;
  double best_s_ = 0;
  double bound_s_ = 0;
  bool whole_ = false;
};

}  // namespace

OperatorStageCosts operator_stage_costs(const OperatorGraph& graph, Overlap overlap,
                                        const OperatorStage& stage) {
  const OperatorDevice& device = graph.devices[stage.device];
  OperatorStageCosts costs;
  std::vector<bool> here(graph.nodes.size(), false);
  for (const std::size_t node : stage.nodes) {
    here[node] = true;
    costs.compute_s += graph.nodes[node].time_s[stage.device];
    costs.memory_mb += graph.nodes[node].memory_mb;
  }
  double in = 0, out = 0;
  for (const OperatorTensor& tensor : graph.tensors) {
    const bool made = here[tensor.producer];
    const auto inside = static_cast<std::size_t>(
        std::ranges::count_if(tensor.consumers, [&](std::size_t k) { return here[k]; }));
    if (made && inside < tensor.consumers.size()) out += tensor.bytes;
    if (!made && inside > 0) in += tensor.bytes;
  }
  if (device.pays_transfers()) {
    costs.receive_s = in / (device.bandwidth_mbps * kBytesPerMegabit);
    costs.send_s = out / (device.bandwidth_mbps * kBytesPerMegabit);
  }
  costs.period_s = overlap == Overlap::kNone
                       ? costs.compute_s + costs.receive_s + costs.send_s
                       : std::max({costs.compute_s, costs.receive_s, costs.send_s});
  return costs;
}

double operator_period(const OperatorGraph& graph, Overlap overlap,
                       std::span<const OperatorStage> stages) {
  double period = 0;
  for (const OperatorStage& stage : stages) {
    period = std::max(period, operator_stage_costs(graph, overlap, stage).period_s);
  }
  return period;
}

double OperatorOutcome::gap() const {
  if (proven) return 0;
  return lower_bound_s > 0 ? period_s / lower_bound_s - 1 : std::numeric_limits<double>::infinity();
}

OperatorOutcome plan_operators(const OperatorGraph& graph, const OperatorPlanOptions& options) {
  check_operator_graph(graph);
  if (graph.nodes.empty()) {
    OperatorOutcome nothing;
    nothing.proven = true;
    nothing.proof.price.assign(graph.devices.size(), 0);
    return nothing;
  }
  return OperatorPlanner(graph, options).run();
}

}  // namespace harmonics::inline in_plan
