#include "unit_orders.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace harmonics::inline in_plan {
namespace {

using Neighbours = std::vector<std::vector<Unit>>;

// Units as they become ready, last come first served: one branch to its end, then the next.
std::vector<Unit> branch_by_branch(const Neighbours& before, const Neighbours& after) {
  std::vector<std::size_t> waits;
  std::vector<Unit> stack;
  for (const auto& needed : before) waits.push_back(needed.size());
  for (Unit unit = static_cast<Unit>(waits.size()); unit-- > 0;) {
    if (waits[unit] == 0) stack.push_back(unit);
  }
  std::vector<Unit> order;
  while (!stack.empty()) {
    const Unit unit = stack.back();
    stack.pop_back();
    order.push_back(unit);
    for (const Unit next : after[unit]) {
      if (--waits[next] == 0) stack.push_back(next);
    }
  }
  return order;
}

// The ready unit with the smallest rank next.
std::vector<Unit> by_rank(const UnitGraph& units, std::span<const double> rank) {
  using Entry = std::pair<double, Unit>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  std::vector<std::size_t> waits;
  for (Unit unit = 0; unit < units.size(); ++unit) {
    waits.push_back(units.before[unit].size());
    if (waits[unit] == 0) ready.emplace(rank[unit], unit);
  }
  std::vector<Unit> order;
  while (!ready.empty()) {
    const Unit unit = ready.top().second;
    ready.pop();
    order.push_back(unit);
    for (const Unit next : units.after[unit]) {
      if (--waits[next] == 0) ready.emplace(rank[next], next);
    }
  }
  return order;
}

// Bytes that more tensors keep alive once a unit has run, less those that it is the last to take.
double growth(const UnitGraph& units, Unit unit, std::span<const std::size_t> takers_left) {
  double bytes = 0;
  for (const std::uint32_t k : units.touching[unit]) {
    const UnitTensor& tensor = units.tensors[k];
    if (tensor.producer == unit) {
      bytes += tensor.bytes;
    } else if (takers_left[k] == 1) {
      bytes -= tensor.bytes;
    }
  }
  return bytes;
}

std::vector<Unit> few_bytes_alive(const UnitGraph& units) {
  std::vector<std::size_t> takers_left, waits;
  for (const UnitTensor& tensor : units.tensors) takers_left.push_back(tensor.consumers.size());
  std::vector<Unit> ready, order;
  for (Unit unit = 0; unit < units.size(); ++unit) {
    waits.push_back(units.before[unit].size());
    if (waits[unit] == 0) ready.push_back(unit);
  }
  while (!ready.empty()) {
    std::size_t best = 0;
    double least = growth(units, ready[0], takers_left);
    for (std::size_t k = 1; k < ready.size(); ++k) {
      const double own = growth(units, ready[k], takers_left);
      if (own < least) std::tie(best, least) = std::pair(k, own);
    }
    const Unit unit = ready[best];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(best));
    order.push_back(unit);
    for (const std::uint32_t k : units.touching[unit]) {
      if (units.tensors[k].producer != unit && takers_left[k] > 0) --takers_left[k];
    }
    for (const Unit next : units.after[unit]) {
      if (--waits[next] == 0) ready.push_back(next);
    }
  }
  return order;
}

}  // namespace

std::vector<std::vector<Unit>> plain_orders(const UnitGraph& units) {
  std::vector<std::vector<Unit>> orders(1);
  for (Unit unit = 0; unit < units.size(); ++unit) orders[0].push_back(unit);
  orders.push_back(branch_by_branch(units.before, units.after));
  orders.push_back(branch_by_branch(units.after, units.before));
  std::ranges::reverse(orders.back());
  orders.push_back(few_bytes_alive(units));
  return orders;
}

std::vector<Unit> order_near(const UnitGraph& units, std::span<const UnitStage> stages,
                             double spread, Random& random) {
  std::vector<double> rank(units.size(), 0);
  for (std::size_t k = 0; k < stages.size(); ++k) {
    for (const Unit unit : stages[k].units) rank[unit] = static_cast<double>(k);
  }
  for (double& one : rank) one += spread * static_cast<double>(random.uniform());
  return by_rank(units, rank);
}

}  // namespace harmonics::inline in_plan
