#include <harmonics/plan/boundary_bits.h>

#include <algorithm>
#include <array>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_plan {
namespace {

// From exact to coarse.
constexpr std::array kBitChoices = {kUnpackedBits, 16, 8, 4};
// Times that differ by less are the same.
constexpr double kSameTime = 1e-9;

/// The cost of placements of one problem whose boundaries have bits.
class PackedCosts {
 public:
  PackedCosts(const PlanProblem& problem, const PlannerOptions& options,
              const DeviceTypeTable& types)
      : problem_(problem),
        costs_(problem, options.costs),
        goal_(options.goal),
        exact_bits_(static_cast<int>(8 * plan_dtype_bytes(problem.dtype))) {
    for (const HostClass& one : problem.classes) {
      const auto type = types.find(one.type);
      const double mbps = type == types.end() ? 0 : type->second.packing_mbps;
      pack_bytes_per_s_.push_back(mbps * kBytesPerMegabit);
    }
  }

  [[nodiscard]] bool packs(int bits) const { return bits < exact_bits_; }
  [[nodiscard]] double share(int bits) const {
    return packs(bits) ? static_cast<double>(bits) / exact_bits_ : 1.0;
  }
  [[nodiscard]] double packing_s(const Placement& placement, std::span<const int> bits,
                                 std::size_t k) const {
    const double rate = pack_bytes_per_s_[placement[k].host_class];
    if (rate == 0) return 0;
    double bytes = 0;
    if (k > 0 && packs(bits[k - 1])) bytes += problem_.cut_bytes[placement[k].first_cut];
    if (k < bits.size() && packs(bits[k])) bytes += problem_.cut_bytes[placement[k].last_cut];
    return bytes / rate;
  }
  [[nodiscard]] StageCosts stage(const Placement& placement, std::span<const int> bits,
                                 std::size_t k) const {
    StageCosts one = stage_costs(costs_, placement, k);
    one.compute_s += packing_s(placement, bits, k);
    if (k > 0) one.receive_s *= share(bits[k - 1]);
    if (k < bits.size()) {
      one.send_s *= share(bits[k]);
      one.transfer_s *= share(bits[k]);
    }
    const double time = costs_.overlap() == Overlap::kNone
                            ? one.compute_s + one.receive_s + one.send_s
                            : std::max({one.compute_s, one.receive_s, one.send_s});
    one.period_s = time / static_cast<double>(placement[k].hosts);
    return one;
  }
  [[nodiscard]] double period(const Placement& placement, std::span<const int> bits) const {
    double slowest = 0;
    for (std::size_t k = 0; k < placement.size(); ++k) {
      slowest = std::max(slowest, stage(placement, bits, k).period_s);
    }
    return slowest;
  }
  [[nodiscard]] double latency(const Placement& placement, std::span<const int> bits) const {
    double sum = 0;
    for (std::size_t k = 0; k < placement.size(); ++k) {
      const StageCosts one = stage(placement, bits, k);
      sum += one.compute_s + one.transfer_s;
    }
    return sum;
  }
  [[nodiscard]] double objective(const Placement& placement, std::span<const int> bits) const {
    return goal_ == PlanGoal::kLatency ? latency(placement, bits) : period(placement, bits);
  }
  /// Whether it fits the hosts with tensors as they are.
  [[nodiscard]] bool fits(const Placement& placement) const {
    return std::ranges::all_of(placement, [&](const PlacedStage& one) {
      return costs_.allowed(one.host_class, one.first_cut, one.last_cut);
    });
  }

 private:
  const PlanProblem& problem_;
  const CostModel costs_;
  const PlanGoal goal_;
  const int exact_bits_;
  std::vector<double> pack_bytes_per_s_;  // by class; 0: not measured
};

std::size_t boundaries_of(const Placement& placement) {
  return placement.empty() ? 0 : placement.size() - 1;
}

/// Every boundary as exact as the objective of the fewest bits allows.
std::vector<int> relaxed(const PackedCosts& costs, const Placement& placement, int fewest) {
  std::vector<int> bits(boundaries_of(placement), fewest);
  const double limit = costs.objective(placement, bits) * (1 + kSameTime);
  for (int& one : bits) {
    for (const int choice : kBitChoices) {
      one = choice;
      if (choice <= fewest || costs.objective(placement, bits) <= limit) break;
    }
  }
  return bits;
}

PlanProblem with_share(PlanProblem problem, double share) {
  for (double& bytes : problem.cut_bytes) bytes *= share;
  return problem;
}

}  // namespace

double bits_error(int bits) {
  switch (bits) {
    case 4: return 0.5 / 7;
    case 8: return 0.5 / 127;
    case 16: return 1.0 / 256;
    default: return 0;
  }
}

int fewest_bits(double tolerance) {
  int fewest = kUnpackedBits;
  for (const int bits : kBitChoices) {
    if (bits_error(bits) <= tolerance) fewest = bits;
  }
  return fewest;
}

int parse_boundary_bits(std::string_view text) {
  if (text == "auto") return 0;
  for (const int bits : kBitChoices) {
    if (std::to_string(bits) == text) return bits;
  }
  fail(ErrorCode::kInvalidArgument, "'{}' is neither auto nor 32, 16, 8 or 4", text);
}

PackedPlan choose_bits(const PlanProblem& exact, const PlanOutcome& outcome,
                       const PlannerOptions& options, const BitsWish& wish,
                       const DeviceTypeTable& types) {
  const PackedCosts costs(exact, options, types);
  const bool chooses = wish.bits == 0;
  const int fewest = chooses ? fewest_bits(wish.tolerance) : wish.bits;
  PackedPlan best{exact, outcome, {}, {}, outcome.period_s};
  best.bits.assign(boundaries_of(outcome.placement), kUnpackedBits);
  if (costs.packs(fewest)) {
    const auto bits_for = [&](const Placement& placement) {
      return chooses ? relaxed(costs, placement, fewest)
                     : std::vector<int>(boundaries_of(placement), fewest);
    };
    PlanOutcome other = make_plan(with_share(exact, costs.share(fewest)), options);
    const double bound = other.lower_bound_s;
    double least = costs.objective(outcome.placement, best.bits);
    // What is asked for is done, whether it helps or not; what is chosen must help.
    bool taken = chooses;
    for (const Placement& placement : {outcome.placement, std::as_const(other).placement}) {
      if (!costs.fits(placement)) continue;
      std::vector<int> bits = bits_for(placement);
      const double reached = costs.objective(placement, bits);
      if (taken && reached >= least * (1 - kSameTime)) continue;
      taken = true;
      least = reached;
      best.outcome = other;
      best.outcome.placement = placement;
      best.bits = std::move(bits);
    }
    const Placement& placement = best.outcome.placement;
    best.outcome.period_s = costs.period(placement, best.bits);
    best.outcome.latency_s = costs.latency(placement, best.bits);
    if (std::ranges::any_of(best.bits, [&](int bits) { return costs.packs(bits); })) {
      best.outcome.lower_bound_s = bound;
      best.outcome.proven = least <= bound * (1 + kSameTime);
      best.outcome.preference_proven = false;
      best.outcome.least_s = least;
      best.outcome.least_proven = best.outcome.proven;
      best.outcome.hosts = 0;
      for (const PlacedStage& stage : placement) best.outcome.hosts += stage.hosts;
    }
  }
  const Placement& placement = best.outcome.placement;
  for (std::size_t k = 0; k < placement.size(); ++k) {
    best.packing_s.push_back(costs.packing_s(placement, best.bits, k));
    if (k < best.bits.size()) {
      best.problem.cut_bytes[placement[k].last_cut] *= costs.share(best.bits[k]);
    }
  }
  return best;
}

PlanReport packed_report(const PackedPlan& packed, const PlanProblem& exact,
                         const PlannerOptions& options, const Plan& plan) {
  PlanReport report = make_report(packed.problem, options, packed.outcome, plan);
  const CostModel whole(exact, options.costs);
  report.exact_period_s = packed.exact_period_s;
  report.slowest_stage = 0;
  for (std::size_t k = 0; k < report.stages.size(); ++k) {
    PlannedStage& stage = report.stages[k];
    const PlacedStage& placed = packed.outcome.placement[k];
    stage.boundary_bits = k < packed.bits.size() ? packed.bits[k] : 0;
    stage.packing_s = packed.packing_s[k];
    stage.costs.compute_s += stage.packing_s;
    const double time =
        options.costs.overlap == Overlap::kNone
            ? stage.costs.compute_s + stage.costs.receive_s + stage.costs.send_s
            : std::max({stage.costs.compute_s, stage.costs.receive_s, stage.costs.send_s});
    stage.costs.period_s = time / static_cast<double>(placed.hosts);
    stage.costs.memory_bytes = whole.memory_bytes(placed.first_cut, placed.last_cut);
    if (stage.costs.period_s > report.stages[report.slowest_stage].costs.period_s) {
      report.slowest_stage = k;
    }
  }
  return report;
}

}  // namespace harmonics::inline in_plan
