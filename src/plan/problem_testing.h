// For the planner's tests: random small problems, and slow, simple twins of what the planner does.
// They share no code with it but the structs.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/base/random.h>
#include <harmonics/plan/planner.h>

namespace harmonics::inline in_plan {

/// One kind of problem that the generator knows.
struct ProblemMix {
  bool tight_memory = false;
  bool tight_network = false;
  bool zero_costs = false;
  bool equal_types = false;
  bool pins = false;
  bool links = false;
  bool ordered = false;
  bool latencies = false;  // with links
};

struct RandomProblemLimits {
  std::size_t most_layers = 8;
  std::size_t most_classes = 3;
  std::size_t most_hosts = 3;  // per class
};

/// Small whole numbers, so that sums are exact and ties are frequent.
inline PlanProblem random_problem(Random& random, const ProblemMix& mix,
                                  const RandomProblemLimits& limits) {
  const auto pick = [&](std::size_t least, std::size_t most) {
    return least + static_cast<std::size_t>(random.below(most - least + 1));
  };
  PlanProblem problem;
  const std::size_t layers = pick(1, limits.most_layers);
  problem.cut_bytes.push_back(static_cast<double>(pick(0, 4)) * 1048576);
  for (std::size_t k = 0; k < layers; ++k) {
    problem.layer_memory_mb.push_back(static_cast<double>(pick(0, 4)));
    problem.cut_bytes.push_back(static_cast<double>(pick(0, 4)) * 1048576);
  }
  const std::size_t classes = pick(1, limits.most_classes);
  for (std::size_t u = 0; u < classes; ++u) {
    HostClass one;
    one.type = format("t{}", u);
    const std::size_t hosts = mix.ordered ? 1 : pick(u == 0 ? 1 : 0, limits.most_hosts);
    for (std::size_t k = 0; k < hosts; ++k) one.hosts.push_back(format("t{}-{}", u, k));
    const std::size_t slowness = pick(1, 4);
    for (std::size_t k = 0; k < layers; ++k) {
      const bool free = mix.zero_costs && pick(0, 2) > 0;
      one.layer_time_s.push_back(free ? 0 : 0.125 * static_cast<double>(slowness * pick(1, 5)));
    }
    one.bandwidth_mbps = mix.tight_network ? 8 * static_cast<double>(pick(0, 4)) : 1024;
    one.memory_mb = mix.tight_memory ? static_cast<double>(pick(6, 30)) : 1000;
    if (mix.equal_types && u > 0) {
      one.layer_time_s = problem.classes[0].layer_time_s;
      one.bandwidth_mbps = problem.classes[0].bandwidth_mbps;
      one.memory_mb = problem.classes[0].memory_mb;
    }
    if (mix.pins && pick(0, 2) == 0) {
      one.barred.assign(layers, false);
      one.barred[pick(0, layers - 1)] = true;
    }
    problem.classes.push_back(std::move(one));
  }
  if (mix.links) {
    problem.link_mbps.assign(classes * classes, 0);
    for (std::size_t u = 0; u < classes; ++u) {
      for (std::size_t v = 0; v <= u; ++v) {
        const auto mbps = 8 * static_cast<double>(pick(0, 4));
        problem.link_mbps[u * classes + v] = problem.link_mbps[v * classes + u] = mbps;
      }
    }
  }
  if (mix.latencies) {
    for (std::size_t pair = 0; pair < classes * classes; ++pair) {
      problem.link_latency_s.push_back(0.0625 * static_cast<double>(pick(0, 8)));
    }
  }
  if (mix.ordered) {
    for (std::size_t u = 0; u < classes; ++u) problem.order.push_back(u);
    for (std::size_t u = classes; u-- > 1;) std::swap(problem.order[u], problem.order[pick(0, u)]);
  }
  return problem;
}

/// Straight from the definitions of cost_model.h.
struct NaiveCosts {
  const PlanProblem& problem;
  CostOptions options;

  double transfer_s(std::size_t cut, double mbps) const {
    const double bytes = problem.cut_bytes[cut];
    return bytes == 0 ? 0 : bytes * 8 / (mbps * 1024 * 1024);
  }
  double link_mbps(std::size_t u, std::size_t v) const {
    const auto unlimited = std::numeric_limits<double>::infinity();
    return problem.link_mbps.empty() ? unlimited
                                     : problem.link_mbps[u * problem.classes.size() + v];
  }
  double pair_mbps(std::size_t u, std::size_t v) const {
    const auto& classes = problem.classes;
    return std::min({classes[u].bandwidth_mbps, classes[v].bandwidth_mbps, link_mbps(u, v)});
  }
  /// At which u's own time counts a transfer to or from v.
  double own_mbps(std::size_t u, std::size_t v) const {
    if (options.overlap == Overlap::kNone) return pair_mbps(u, v);
    return std::min(problem.classes[u].bandwidth_mbps, link_mbps(u, v));
  }
  double compute_s(std::size_t u, std::size_t first, std::size_t last) const {
    double sum = 0;
    for (std::size_t k = first; k < last; ++k) sum += problem.classes[u].layer_time_s[k];
    return sum;
  }
  bool fits(std::size_t u, std::size_t first, std::size_t last) const {
    double bytes = 0;
    for (std::size_t k = first; k < last; ++k) {
      bytes += problem.layer_memory_mb[k] * 1024 * 1024;
      if (!problem.classes[u].barred.empty() && problem.classes[u].barred[k]) return false;
    }
    const double in = problem.cut_bytes[first];
    const double out = problem.cut_bytes[last];
    if (first > 0) bytes += in * options.buffers_in;
    bytes += out * options.buffers_out + in + out;
    return bytes < problem.classes[u].memory_mb * 1024 * 1024;
  }
  /// The time of the k-th stage, before it is shared among its hosts.
  double stage_s(const Placement& plan, std::size_t k) const {
    const PlacedStage& stage = plan[k];
    const std::size_t u = stage.host_class;
    double in = 0;
    double out = 0;
    if (k > 0) in = transfer_s(stage.first_cut, own_mbps(u, plan[k - 1].host_class));
    if (k + 1 < plan.size()) out = transfer_s(stage.last_cut, own_mbps(u, plan[k + 1].host_class));
    const double compute = compute_s(u, stage.first_cut, stage.last_cut);
    return options.overlap == Overlap::kNone ? compute + in + out : std::max({compute, in, out});
  }
  double period_s(const Placement& plan) const {
    double most = 0;
    for (std::size_t k = 0; k < plan.size(); ++k) {
      most = std::max(most, stage_s(plan, k) / static_cast<double>(plan[k].hosts));
    }
    return most;
  }
  double latency_s(const Placement& plan) const {
    double sum = 0;
    for (std::size_t k = 0; k < plan.size(); ++k) {
      sum += compute_s(plan[k].host_class, plan[k].first_cut, plan[k].last_cut);
      if (k + 1 == plan.size()) continue;
      sum += transfer_s(plan[k].last_cut, pair_mbps(plan[k].host_class, plan[k + 1].host_class));
      if (problem.link_latency_s.empty()) continue;
      sum +=
          problem
              .link_latency_s[plan[k].host_class * problem.classes.size() + plan[k + 1].host_class];
    }
    return sum;
  }
  /// All rules: cover, memory, bars, hosts that exist, the order.
  bool valid(const Placement& plan) const {
    std::size_t cut = 0;
    std::vector<std::size_t> used(problem.classes.size(), 0);
    std::size_t place = 0;
    for (const PlacedStage& stage : plan) {
      if (stage.first_cut != cut || stage.last_cut <= cut || stage.hosts == 0) return false;
      cut = stage.last_cut;
      if (cut > problem.layers() || !fits(stage.host_class, stage.first_cut, cut)) return false;
      used[stage.host_class] += stage.hosts;
      if (used[stage.host_class] > problem.classes[stage.host_class].hosts.size()) return false;
      if (problem.order.empty()) continue;
      while (place < problem.order.size() && problem.order[place] != stage.host_class) ++place;
      if (place++ == problem.order.size()) return false;
    }
    return cut == problem.layers();
  }
};

struct PlanFigures {
  double period_s = 0;
  double latency_s = 0;
  std::size_t hosts = 0;
};

/// Every plan there is, by trying everything, with its period.
inline void for_each_plan(const NaiveCosts& costs, bool replicate,
                          const std::function<void(const Placement&, double)>& visit) {
  const PlanProblem& problem = costs.problem;
  Placement plan;
  std::vector<std::size_t> used(problem.classes.size(), 0);
  const std::function<void(std::size_t)> extend = [&](std::size_t cut) {
    if (cut == problem.layers()) {
      const double period = costs.period_s(plan);
      if (costs.valid(plan) && std::isfinite(period)) visit(plan, period);
      return;
    }
    for (std::size_t end = cut + 1; end <= problem.layers(); ++end) {
      for (std::size_t u = 0; u < problem.classes.size(); ++u) {
        if (!costs.fits(u, cut, end)) continue;
        const std::size_t left = problem.classes[u].hosts.size() - used[u];
        for (std::size_t hosts = 1; hosts <= (replicate ? left : std::min<std::size_t>(1, left));
             ++hosts) {
          used[u] += hosts;
          plan.push_back({cut, end, u, hosts});
          extend(end);
          plan.pop_back();
          used[u] -= hosts;
        }
      }
    }
  };
  extend(0);
}

inline std::vector<PlanFigures> all_plans(const NaiveCosts& costs, bool replicate) {
  std::vector<PlanFigures> plans;
  for_each_plan(costs, replicate, [&](const Placement& plan, double period) {
    std::size_t hosts = 0;
    for (const PlacedStage& stage : plan) hosts += stage.hosts;
    plans.push_back({period, costs.latency_s(plan), hosts});
  });
  return plans;
}

struct TimedStage {
  std::size_t host_class;
  double stage_s;
};

/// What a stage pays under the prices of a proof; infinite where there are not hosts enough for it.
inline double price_of_stage(const PlanProblem& problem, bool replicate, const PeriodProof& proof,
                             const TimedStage& stage) {
  const double never = std::numeric_limits<double>::infinity();
  const std::size_t hosts = problem.classes[stage.host_class].hosts.size();
  if (!std::isfinite(stage.stage_s) || hosts == 0) return never;
  const double wanted = std::max(1.0, std::ceil(stage.stage_s / proof.period_s * (1 - 1e-12)));
  if (wanted > (replicate ? static_cast<double>(hosts) : 1.0)) return never;
  double cost = wanted * proof.price[stage.host_class];
  // Of parts + 1 equal shares of the class, how many it takes more than.
  for (const SharePrice& rule : proof.shares) {
    if (rule.host_class != stage.host_class) continue;
    const double shares = static_cast<double>(rule.parts + 1) * wanted / static_cast<double>(hosts);
    cost += rule.price * (std::ceil(shares * (1 - 1e-9)) - 1);
  }
  return cost;
}

/// Whether the prices prove what they claim: all hosts that a plan can use cost at most 1, the
/// cheapest way to place the layers with that period costs more. Goes over all pairs of neighbours.
inline bool proof_holds(const NaiveCosts& costs, bool replicate, const PeriodProof& proof) {
  const PlanProblem& problem = costs.problem;
  const std::size_t classes = problem.classes.size();
  const std::size_t layers = problem.layers();
  double total = 0;
  for (std::size_t u = 0; u < classes; ++u) {
    if (!(proof.price[u] >= 0)) return false;
    const std::size_t hosts = problem.classes[u].hosts.size();
    total += proof.price[u] * static_cast<double>(replicate ? hosts : std::min(hosts, layers));
  }
  for (const SharePrice& rule : proof.shares) {
    if (!(rule.price >= 0) || rule.parts == 0 || !replicate) return false;
    total += rule.price * static_cast<double>(rule.parts);
  }
  if (total > 1 + 1e-6) return false;
  const double never = std::numeric_limits<double>::infinity();
  // least[i][p][u]: the cheapest way from cut i on, with a stage on u after one on p.
  std::vector<double> least((layers + 1) * classes * classes, never);
  const auto at = [&](std::size_t i, std::size_t p, std::size_t u) -> double& {
    return least[(i * classes + p) * classes + u];
  };
  const auto price = [&](std::size_t u, double stage_s) {
    return price_of_stage(problem, replicate, proof, {u, stage_s});
  };
  std::vector<std::size_t> place(classes, 0);
  for (std::size_t k = 0; k < problem.order.size(); ++k) place[problem.order[k]] = k;
  const auto may_follow = [&](std::size_t u, std::size_t v) {
    return problem.order.empty() || place[u] < place[v];
  };
  for (std::size_t i = layers; i-- > 0;) {
    for (std::size_t u = 0; u < classes; ++u) {
      for (std::size_t p = 0; p < (i == 0 ? 1 : classes); ++p) {
        const double in = i == 0 ? 0 : costs.transfer_s(i, costs.own_mbps(u, p));
        double compute = 0;
        for (std::size_t j = i + 1; j <= layers; ++j) {
          compute += problem.classes[u].layer_time_s[j - 1];
          if (price(u, compute) == never) break;
          if (!costs.fits(u, i, j)) continue;
          for (std::size_t v = 0; v < (j == layers ? 1 : classes); ++v) {
            if (j < layers && !may_follow(u, v)) continue;
            const double out = j == layers ? 0 : costs.transfer_s(j, costs.own_mbps(u, v));
            const double stage = costs.options.overlap == Overlap::kNone
                                     ? compute + in + out
                                     : std::max({compute, in, out});
            const double rest = j == layers ? 0 : at(j, u, v);
            at(i, p, u) = std::min(at(i, p, u), price(u, stage) + rest);
          }
        }
      }
    }
  }
  double cheapest = never;
  for (std::size_t u = 0; u < classes; ++u) cheapest = std::min(cheapest, at(0, 0, u));
  return cheapest > 1;
}

/// Hosts that a stage takes to keep a period; more than there are where it cannot.
inline std::size_t hosts_needed(const NaiveCosts& costs, double period_s,
                                const PlacedStage& stage) {
  const std::size_t never = std::numeric_limits<std::size_t>::max();
  const auto [i, j, u, unused] = stage;
  if (!costs.fits(u, i, j)) return never;
  const std::size_t layers = costs.problem.layers();
  double time = 0;
  for (std::size_t k = i; k < j; ++k) time += costs.problem.classes[u].layer_time_s[k];
  if (i > 0) time = std::max(time, costs.transfer_s(i, costs.own_mbps(u, u)));
  if (j < layers) time = std::max(time, costs.transfer_s(j, costs.own_mbps(u, u)));
  if (!std::isfinite(time)) return never;
  return static_cast<std::size_t>(std::max(1.0, std::ceil(time / period_s * (1 - 1e-12))));
}

/// Whether prices on layers prove what they claim: no class earns more than its best set of stages,
/// and all classes together less than all layers are worth. For replicated stages that overlap, on
/// hosts in any order without links of their own.
inline bool proof_holds(const NaiveCosts& costs, const LayerProof& proof) {
  const std::size_t layers = costs.problem.layers();
  if (proof.price.size() != layers) return false;
  double total = 0;
  for (const double one : proof.price) total += one;
  double earned = 0;
  for (std::size_t u = 0; u < costs.problem.classes.size(); ++u) {
    const std::size_t hosts = costs.problem.classes[u].hosts.size();
    // best[j][h]: of the layers before cut j, with h hosts.
    std::vector<std::vector<double>> best(layers + 1, std::vector<double>(hosts + 1, 0));
    for (std::size_t j = 1; j <= layers; ++j) {
      best[j] = best[j - 1];
      double worth = 0;
      for (std::size_t i = j; i-- > 0;) {
        worth += proof.price[i];
        const std::size_t taken = hosts_needed(costs, proof.period_s, {i, j, u, 1});
        for (std::size_t h = taken; h <= hosts; ++h) {
          best[j][h] = std::max(best[j][h], best[i][h - taken] + worth);
        }
      }
    }
    earned += best[layers][hosts];
  }
  return std::abs(total - 1) < 1e-9 && earned < total;
}

}  // namespace harmonics::inline in_plan
