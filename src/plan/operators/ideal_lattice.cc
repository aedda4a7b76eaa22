#include "ideal_lattice.h"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>

namespace harmonics::inline in_plan {
namespace {

// Sets that are kept take this many words at most: 128 MiB.
constexpr std::size_t kMostWords = std::size_t{1} << 24;
constexpr std::size_t kMostSteps = std::size_t{1} << 25;

using Set = std::vector<std::uint64_t>;

struct SetHash {
  std::size_t operator()(const Set& set) const {
    std::uint64_t hash = 0x9e3779b97f4a7c15u;
    for (const std::uint64_t word : set) {
      hash = std::rotl(hash ^ word, 29) * 0xbf58476d1ce4e5b9u;
    }
    return static_cast<std::size_t>(hash ^ (hash >> 32));
  }
};
using SetNumbers = std::unordered_map<Set, std::uint32_t, SetHash>;

void put(Set& set, Unit unit) { set[unit / 64] |= std::uint64_t{1} << (unit % 64); }
bool holds(const Set& set, Unit unit) { return ((set[unit / 64] >> (unit % 64)) & 1) != 0; }

// Ideals of one size with the units that may join each.
struct Level {
  std::vector<Set> sets;
  std::vector<std::vector<Unit>> ready;
};

std::vector<Unit> ready_after(const UnitGraph& units, const Set& set,
                              const std::vector<Unit>& ready, Unit joined) {
  std::vector<Unit> result;
  for (const Unit unit : ready) {
    if (unit != joined) result.push_back(unit);
  }
  for (const Unit unit : units.after[joined]) {
    const bool all =
        std::ranges::all_of(units.before[unit], [&](Unit needed) { return holds(set, needed); });
    if (all) result.push_back(unit);
  }
  return result;
}

}  // namespace

std::optional<IdealLattice> IdealLattice::whole(const UnitGraph& units, std::size_t most) {
  IdealLattice lattice(units.size());
  Level level;
  level.sets.emplace_back(lattice.words_, 0);
  level.ready.emplace_back();
  for (Unit unit = 0; unit < units.size(); ++unit) {
    if (units.before[unit].empty()) level.ready[0].push_back(unit);
  }
  std::size_t known = 1;
  for (std::size_t size = 0; size <= units.size(); ++size) {
    Level next;
    SetNumbers numbers;
    for (std::size_t k = 0; k < level.sets.size(); ++k) {
      lattice.sets_.insert(lattice.sets_.end(), level.sets[k].begin(), level.sets[k].end());
      lattice.first_step_.push_back(static_cast<std::uint32_t>(lattice.steps_.size()));
      for (const Unit unit : level.ready[k]) {
        Set grown = level.sets[k];
        put(grown, unit);
        const auto [place, is_new] =
            numbers.try_emplace(grown, static_cast<std::uint32_t>(known + next.sets.size()));
        lattice.steps_.push_back({unit, place->second});
        if (!is_new) continue;
        next.ready.push_back(ready_after(units, grown, level.ready[k], unit));
        next.sets.push_back(std::move(grown));
      }
      if (known + next.sets.size() > most || lattice.steps_.size() > kMostSteps ||
          (known + next.sets.size()) * lattice.words_ > kMostWords) {
        return std::nullopt;
      }
    }
    known += next.sets.size();
    level = std::move(next);
  }
  lattice.first_step_.push_back(static_cast<std::uint32_t>(lattice.steps_.size()));
  return lattice;
}

IdealLattice IdealLattice::of_orders(const UnitGraph& units,
                                     std::span<const std::vector<Unit>> orders) {
  IdealLattice lattice(units.size());
  // The beginnings of one length, and where each order stands among them.
  std::vector<Set> sets(orders.size(), Set(lattice.words_, 0));
  std::vector<std::uint32_t> number(orders.size(), 0);
  std::uint32_t known = 1;
  lattice.sets_.assign(lattice.words_, 0);
  for (std::size_t size = 0; size < units.size(); ++size) {
    SetNumbers next;
    std::map<std::uint32_t, std::vector<Step>> steps;
    for (std::size_t k = 0; k < orders.size(); ++k) {
      const Unit unit = orders[k][size];
      put(sets[k], unit);
      const auto [place, is_new] = next.try_emplace(sets[k], known);
      if (is_new) {
        lattice.sets_.insert(lattice.sets_.end(), sets[k].begin(), sets[k].end());
        ++known;
      }
      std::vector<Step>& own = steps[number[k]];
      const bool there = std::ranges::any_of(own, [&](const Step& s) { return s.unit == unit; });
      if (!there) own.push_back({unit, place->second});
      number[k] = place->second;
    }
    for (const auto& [from, list] : steps) {
      lattice.first_step_.push_back(static_cast<std::uint32_t>(lattice.steps_.size()));
      lattice.steps_.insert(lattice.steps_.end(), list.begin(), list.end());
    }
  }
  lattice.first_step_.push_back(static_cast<std::uint32_t>(lattice.steps_.size()));
  lattice.first_step_.push_back(static_cast<std::uint32_t>(lattice.steps_.size()));
  return lattice;
}

std::vector<Unit> IdealLattice::difference(std::size_t smaller, std::size_t larger) const {
  std::vector<Unit> units;
  for (std::size_t w = 0; w < words_; ++w) {
    std::uint64_t rest = words_of(larger)[w] & ~words_of(smaller)[w];
    while (rest != 0) {
      units.push_back(static_cast<Unit>(w * 64 + static_cast<std::size_t>(std::countr_zero(rest))));
      rest &= rest - 1;
    }
  }
  return units;
}

}  // namespace harmonics::inline in_plan
