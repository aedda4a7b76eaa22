#include "unit_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include <harmonics/plan/cost_model.h>

namespace harmonics::inline in_plan {
namespace {

using Arc = std::pair<std::size_t, std::size_t>;

// Which of two things are one; a representative for each.
class Groups {
 public:
  explicit Groups(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  std::size_t of(std::size_t k) {
    while (parent_[k] != k) k = parent_[k] = parent_[parent_[k]];
    return k;
  }
  void join(std::size_t a, std::size_t b) { parent_[of(a)] = of(b); }

 private:
  std::vector<std::size_t> parent_;
};

void join_classes(const OperatorGraph& graph, Groups& groups) {
  std::map<std::string, std::size_t> first;
  for (std::size_t k = 0; k < graph.nodes.size(); ++k) {
    const std::string& name = graph.nodes[k].colocate;
    if (name.empty()) continue;
    groups.join(k, first.try_emplace(name, k).first->second);
  }
}

// What orders classes: tensors of the forward pass; for classes that are of the backward pass
// alone, its tensors the other way round.
std::set<Arc> order_of(const OperatorGraph& graph, Groups& groups) {
  std::vector<bool> forward(graph.nodes.size(), false);
  for (std::size_t k = 0; k < graph.nodes.size(); ++k) {
    if (!graph.nodes[k].backward) forward[groups.of(k)] = true;
  }
  std::set<Arc> arcs;
  for (const OperatorTensor& tensor : graph.tensors) {
    const std::size_t from = groups.of(tensor.producer);
    for (const std::size_t consumer : tensor.consumers) {
      const std::size_t to = groups.of(consumer);
      if (from == to) continue;
      if (!graph.nodes[tensor.producer].backward && !graph.nodes[consumer].backward) {
        arcs.emplace(from, to);
      } else if (graph.nodes[tensor.producer].backward && (!forward[from] || !forward[to])) {
        arcs.emplace(to, from);
      }
    }
  }
  return arcs;
}

// Joins what depends on each other both ways: strongly connected components, Tarjan's way.
class Circles {
 public:
  Circles(std::size_t count, const std::set<Arc>& arcs)
      : after_(count), number_(count, 0), low_(count, 0), done_(count, false) {
    for (const auto& [from, to] : arcs) after_[from].push_back(to);
  }

  void join(Groups& groups) {
    for (std::size_t k = 0; k < after_.size(); ++k) {
      if (number_[k] == 0) visit(k, groups);
    }
  }

 private:
  struct Frame {
    std::size_t at;
    std::size_t next = 0;
  };

  void enter(std::size_t k) {
    number_[k] = low_[k] = ++count_;
    open_.push_back(k);
    frames_.push_back({k});
  }

  void visit(std::size_t start, Groups& groups) {
    enter(start);
    while (!frames_.empty()) {
      const std::size_t at = frames_.back().at;
      if (frames_.back().next < after_[at].size()) {
        const std::size_t to = after_[at][frames_.back().next++];
        if (number_[to] == 0) {
          enter(to);
        } else if (!done_[to]) {
          low_[at] = std::min(low_[at], number_[to]);
        }
        continue;
      }
      frames_.pop_back();
      if (!frames_.empty()) low_[frames_.back().at] = std::min(low_[frames_.back().at], low_[at]);
      if (low_[at] == number_[at]) close(at, groups);
    }
  }

  void close(std::size_t root, Groups& groups) {
    std::size_t member = root;
    do {
      member = open_.back();
      open_.pop_back();
      done_[member] = true;
      groups.join(member, root);
    } while (member != root);
  }

  std::vector<std::vector<std::size_t>> after_;
  std::vector<std::size_t> number_, low_;
  std::vector<bool> done_;
  std::vector<std::size_t> open_;
  std::vector<Frame> frames_;
  std::size_t count_ = 0;
};

// Whether all operators fit on any one host.
bool memory_is_no_matter(const OperatorGraph& graph) {
  double all = 0;
  for (const OperatorNode& node : graph.nodes) all += node.memory_mb;
  return std::ranges::all_of(graph.devices,
                             [&](const OperatorDevice& device) { return all <= device.memory_mb; });
}

std::set<Arc> between_groups(const std::set<Arc>& arcs, Groups& groups) {
  std::set<Arc> result;
  for (const auto& [from, to] : arcs) {
    if (groups.of(from) != groups.of(to)) result.emplace(groups.of(from), groups.of(to));
  }
  return result;
}

// Joins groups that take no time to their only neighbour.
void join_idle(const OperatorGraph& graph, const std::set<Arc>& arcs, Groups& groups) {
  const std::size_t count = graph.nodes.size();
  const bool any_memory = memory_is_no_matter(graph);
  std::vector<bool> idle(count, true);
  for (std::size_t k = 0; k < count; ++k) {
    const OperatorNode& node = graph.nodes[k];
    const bool no_time = std::ranges::all_of(node.time_s, [](double s) { return s == 0; });
    if (!no_time || (!any_memory && node.memory_mb > 0)) idle[groups.of(k)] = false;
  }
  std::vector<std::set<std::size_t>> near(count);
  const auto meet = [&](std::size_t a, std::size_t b) {
    if (a == b) return;
    near[a].insert(b);
    near[b].insert(a);
  };
  for (const OperatorTensor& tensor : graph.tensors) {
    for (const std::size_t to : tensor.consumers) meet(groups.of(tensor.producer), groups.of(to));
  }
  for (const auto& [from, to] : arcs) meet(groups.of(from), groups.of(to));
  std::vector<std::size_t> queue;
  for (std::size_t k = count; k-- > 0;) {
    if (groups.of(k) == k) queue.push_back(k);
  }
  while (!queue.empty()) {
    const std::size_t own = queue.back();
    queue.pop_back();
    if (!idle[own] || groups.of(own) != own || near[own].size() != 1) continue;
    const std::size_t neighbour = *near[own].begin();
    near[neighbour].erase(own);
    near[own].clear();
    groups.join(own, neighbour);
    queue.push_back(neighbour);
  }
}

// Groups in an order in which none comes before one that it needs; among those that may come next,
// the one whose first operator is first.
std::vector<std::size_t> in_order(const std::vector<std::size_t>& members,
                                  const std::set<Arc>& arcs) {
  std::map<std::size_t, std::size_t> waits;
  std::map<std::size_t, std::vector<std::size_t>> after;
  for (const auto& [from, to] : arcs) {
    ++waits[to];
    after[from].push_back(to);
  }
  std::set<std::size_t> ready;
  for (const std::size_t group : members) {
    if (waits[group] == 0) ready.insert(group);
  }
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    const std::size_t next = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(next);
    for (const std::size_t to : after[next]) {
      if (--waits[to] == 0) ready.insert(to);
    }
  }
  return order;
}

void add_tensors(const OperatorGraph& graph, const std::vector<Unit>& unit_of, UnitGraph& units) {
  std::map<std::pair<Unit, std::vector<Unit>>, double> bytes;
  for (const OperatorTensor& tensor : graph.tensors) {
    const Unit producer = unit_of[tensor.producer];
    std::set<Unit> takers;
    for (const std::size_t consumer : tensor.consumers) takers.insert(unit_of[consumer]);
    takers.erase(producer);
    if (takers.empty() || tensor.bytes == 0) continue;
    bytes[{producer, {takers.begin(), takers.end()}}] += tensor.bytes;
  }
  units.touching.resize(units.size());
  for (const auto& [ends, size] : bytes) {
    const auto index = static_cast<std::uint32_t>(units.tensors.size());
    units.tensors.push_back({ends.first, ends.second, size});
    units.touching[ends.first].push_back(index);
    for (const Unit taker : ends.second) units.touching[taker].push_back(index);
  }
}

}  // namespace

UnitGraph make_units(const OperatorGraph& graph, OperatorSplit split) {
  Groups groups(graph.nodes.size());
  join_classes(graph, groups);
  const std::set<Arc> class_arcs =
      split == OperatorSplit::kFree ? std::set<Arc>() : order_of(graph, groups);
  Circles(graph.nodes.size(), class_arcs).join(groups);
  join_idle(graph, class_arcs, groups);
  const std::set<Arc> arcs = between_groups(class_arcs, groups);
  std::vector<std::size_t> members;
  for (std::size_t k = 0; k < graph.nodes.size(); ++k) {
    if (groups.of(k) == k) members.push_back(k);
  }
  const std::vector<std::size_t> order = in_order(members, arcs);
  std::vector<Unit> unit_of(graph.nodes.size());
  for (std::size_t k = 0; k < order.size(); ++k) unit_of[order[k]] = static_cast<Unit>(k);
  UnitGraph units;
  units.devices = graph.devices.size();
  units.nodes.resize(order.size());
  units.time_s.assign(order.size() * units.devices, 0);
  units.memory_mb.assign(order.size(), 0);
  units.before.resize(order.size());
  units.after.resize(order.size());
  for (std::size_t k = 0; k < graph.nodes.size(); ++k) {
    const Unit own = unit_of[k] = unit_of[groups.of(k)];
    units.nodes[own].push_back(k);
    units.memory_mb[own] += graph.nodes[k].memory_mb;
    for (std::size_t d = 0; d < units.devices; ++d) {
      units.time_s[own * units.devices + d] += graph.nodes[k].time_s[d];
    }
  }
  for (const auto& [from, to] : arcs) {
    units.after[unit_of[from]].push_back(unit_of[to]);
    units.before[unit_of[to]].push_back(unit_of[from]);
  }
  add_tensors(graph, unit_of, units);
  return units;
}

std::vector<DeviceLimits> device_limits(const OperatorGraph& graph) {
  std::vector<DeviceLimits> limits;
  for (const OperatorDevice& device : graph.devices) {
    limits.push_back(
        {device.hosts.size(), device.memory_mb,
         device.pays_transfers() ? 1 / (device.bandwidth_mbps * kBytesPerMegabit) : 0});
  }
  return limits;
}

}  // namespace harmonics::inline in_plan
