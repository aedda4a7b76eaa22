// For the tests of operator graphs: drawn graphs, and slow, simple twins of what the planner does.
// They share no code with it but the structs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/base/random.h>
#include <harmonics/plan/operator_plan.h>

namespace harmonics::inline in_plan {

struct OperatorMix {
  bool classes = false;
  bool backward = false;
  bool tight_memory = false;
  bool cannot_run = false;
  bool free_device = false;
  bool idle = false;
};

/// Small whole numbers, so that sums are exact and ties are frequent. Up to three device types with
/// four hosts in all.
inline OperatorGraph random_operators(Random& random, const OperatorMix& mix,
                                      std::size_t most_nodes) {
  OperatorGraph graph;
  graph.name = "drawn";
  const std::size_t types = 1 + random.below(3);
  for (std::size_t d = 0; d < types; ++d) {
    OperatorDevice device{format("t{}", d), {format("t{}-a", d)}};
    if (d == 0 && random.below(2) == 0) device.hosts.push_back("t0-b");
    device.bandwidth_mbps = static_cast<double>(8 + 8 * random.below(3));
    if (mix.free_device && d == 1) device.bandwidth_mbps = std::numeric_limits<double>::infinity();
    if (mix.tight_memory) device.memory_mb = static_cast<double>(8 + random.below(12));
    graph.devices.push_back(std::move(device));
  }
  const std::size_t count = 1 + random.below(most_nodes);
  const std::size_t forward = mix.backward ? (count + 1) / 2 : count;
  for (std::size_t k = 0; k < count; ++k) {
    OperatorNode node{format("n{}", k), {}, static_cast<double>(random.below(4))};
    const bool idle = mix.idle && random.below(3) == 0;
    for (std::size_t d = 0; d < types; ++d) {
      const bool cannot = mix.cannot_run && d > 0 && random.below(4) == 0;
      node.time_s.push_back(cannot ? kCannotRun
                                   : (idle ? 0 : static_cast<double>(1 + random.below(9))));
    }
    node.backward = k >= forward;
    if (node.backward && random.below(4) > 0) {
      node.colocate = format("c{}", random.below(forward));
    } else if (mix.classes && random.below(3) == 0) {
      node.colocate = format("c{}", random.below(3));
    }
    graph.nodes.push_back(std::move(node));
  }
  if (mix.backward) {
    for (std::size_t k = 0; k < forward; ++k) graph.nodes[k].colocate = format("c{}", k);
  }
  for (std::size_t from = 0; from + 1 < count; ++from) {
    OperatorTensor tensor{from, {}, static_cast<double>((1 << 20) * random.below(5))};
    for (std::size_t to = from + 1; to < count; ++to) {
      if (random.below(count) < 2) tensor.consumers.push_back(to);
    }
    if (!tensor.consumers.empty()) graph.tensors.push_back(std::move(tensor));
  }
  return graph;
}

/// The time of a set of operators on a device, from the rule as it is written; infinite where the
/// device cannot hold them.
inline double set_seconds(const OperatorGraph& graph, Overlap overlap, std::uint32_t set,
                          std::size_t device) {
  const OperatorDevice& on = graph.devices[device];
  double compute = 0, memory = 0, in = 0, out = 0;
  const auto holds = [&](std::size_t k) { return ((set >> k) & 1) != 0; };
  for (std::size_t k = 0; k < graph.nodes.size(); ++k) {
    if (!holds(k)) continue;
    compute += graph.nodes[k].time_s[device];
    memory += graph.nodes[k].memory_mb;
  }
  if (memory > on.memory_mb) return kCannotRun;
  for (const OperatorTensor& tensor : graph.tensors) {
    const bool made = holds(tensor.producer);
    bool taken_here = false, taken_elsewhere = false;
    for (const std::size_t to : tensor.consumers) (holds(to) ? taken_here : taken_elsewhere) = true;
    const double seconds = tensor.bytes / (1 << 17) / on.bandwidth_mbps;  // 0 where it is infinite
    if (made && taken_elsewhere) out += seconds;
    if (!made && taken_here) in += seconds;
  }
  return overlap == Overlap::kNone ? compute + in + out : std::max({compute, in, out});
}

/// Whether stages up to here may hold exactly this set.
inline bool may_be_done(const OperatorGraph& graph, std::uint32_t set) {
  const auto holds = [&](std::size_t k) { return ((set >> k) & 1) != 0; };
  std::map<std::string, std::pair<bool, bool>> classes;  // holds one; has a forward operator
  const auto class_of = [&](std::size_t k) {
    return graph.nodes[k].colocate.empty() ? " " + graph.nodes[k].name : graph.nodes[k].colocate;
  };
  for (std::size_t k = 0; k < graph.nodes.size(); ++k) {
    const auto [place, first] = classes.try_emplace(class_of(k), holds(k), false);
    if (place->second.first != holds(k)) return false;
    if (!graph.nodes[k].backward) place->second.second = true;
  }
  for (const OperatorTensor& tensor : graph.tensors) {
    for (const std::size_t to : tensor.consumers) {
      const std::size_t from = tensor.producer;
      if (!graph.nodes[from].backward && !graph.nodes[to].backward) {
        if (holds(to) && !holds(from)) return false;
      } else if (graph.nodes[from].backward &&
                 (!classes[class_of(from)].second || !classes[class_of(to)].second)) {
        if (holds(from) && !holds(to)) return false;
      }
    }
  }
  return true;
}

/// The best contiguous split by trying all; infinite where there is none.
class BruteContiguous {
 public:
  BruteContiguous(const OperatorGraph& graph, Overlap overlap)
      : graph_(graph), overlap_(overlap), all_((1u << graph.nodes.size()) - 1) {
    for (std::uint32_t set = 0; set <= all_; ++set) done_.push_back(may_be_done(graph, set));
  }

  double best() {
    std::vector<std::size_t> left;
    for (const OperatorDevice& device : graph_.devices) left.push_back(device.hosts.size());
    return from(0, left);
  }

 private:
  double from(std::uint32_t set, std::vector<std::size_t> left) {
    if (set == all_) return 0;
    const auto known = known_.find({set, left});
    if (known != known_.end()) return known->second;
    double least = std::numeric_limits<double>::infinity();
    const std::uint32_t rest = all_ & ~set;
    for (std::uint32_t stage = rest; stage != 0; stage = (stage - 1) & rest) {
      if (!done_[set | stage]) continue;
      for (std::size_t d = 0; d < left.size(); ++d) {
        if (left[d] == 0) continue;
        const double own = seconds(stage, d);
        if (own >= least) continue;
        --left[d];
        least = std::min(least, std::max(own, from(set | stage, left)));
        ++left[d];
      }
    }
    return known_[{set, left}] = least;
  }

  double seconds(std::uint32_t stage, std::size_t d) {
    const auto [place, is_new] = seconds_.try_emplace({stage, d}, 0);
    if (is_new) place->second = set_seconds(graph_, overlap_, stage, d);
    return place->second;
  }

  const OperatorGraph& graph_;
  Overlap overlap_;
  std::uint32_t all_;
  std::vector<bool> done_;
  std::map<std::pair<std::uint32_t, std::vector<std::size_t>>, double> known_;
  std::map<std::pair<std::uint32_t, std::size_t>, double> seconds_;
};

/// The best free split by trying all.
inline double brute_free(const OperatorGraph& graph, Overlap overlap) {
  std::vector<std::size_t> device;
  for (std::size_t d = 0; d < graph.devices.size(); ++d) {
    device.insert(device.end(), graph.devices[d].hosts.size(), d);
  }
  std::map<std::pair<std::uint32_t, std::size_t>, double> seconds;
  std::vector<std::size_t> place(graph.nodes.size(), 0);
  double least = std::numeric_limits<double>::infinity();
  for (;;) {
    std::map<std::string, std::size_t> where;
    bool together = true;
    std::vector<std::uint32_t> set(device.size(), 0);
    for (std::size_t k = 0; k < place.size(); ++k) {
      set[place[k]] |= 1u << k;
      const std::string& name = graph.nodes[k].colocate;
      if (!name.empty() && where.try_emplace(name, place[k]).first->second != place[k]) {
        together = false;
      }
    }
    if (together) {
      double longest = 0;
      for (std::size_t h = 0; h < set.size(); ++h) {
        if (set[h] == 0) continue;
        const auto [found, is_new] = seconds.try_emplace({set[h], device[h]}, 0);
        if (is_new) found->second = set_seconds(graph, overlap, set[h], device[h]);
        longest = std::max(longest, found->second);
      }
      least = std::min(least, longest);
    }
    std::size_t k = 0;
    while (k < place.size() && ++place[k] == device.size()) place[k++] = 0;
    if (k == place.size()) return least;
  }
}

/// Recomputes a certificate: what all operators cost at its prices, class by class, where all hosts
/// together cost 1.
inline double recomputed_bound(const OperatorGraph& graph, const OperatorLoadProof& proof) {
  std::map<std::string, std::vector<double>> times;
  for (const OperatorNode& node : graph.nodes) {
    auto& sum = times[node.colocate.empty() ? " " + node.name : node.colocate];
    sum.resize(graph.devices.size(), 0);
    for (std::size_t d = 0; d < sum.size(); ++d) sum[d] += node.time_s[d];
  }
  double hosts = 0, bound = 0;
  for (std::size_t d = 0; d < graph.devices.size(); ++d) {
    if (proof.price[d] < 0) return 0;
    hosts += proof.price[d] * static_cast<double>(graph.devices[d].hosts.size());
  }
  for (const auto& [name, sum] : times) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t d = 0; d < sum.size(); ++d) {
      if (std::isfinite(sum[d])) least = std::min(least, sum[d] * proof.price[d]);
    }
    bound += least;
  }
  return bound / hosts;
}

}  // namespace harmonics::inline in_plan
