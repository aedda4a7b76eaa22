// Ideals of a unit graph: sets of units that hold with each unit all that it needs. A contiguous
// split is a chain of them, from none to all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "unit_graph.h"

namespace harmonics::inline in_plan {

/// Some or all ideals, the smaller ones first: the first is empty, the last holds all units. From
/// each, steps of one unit lead to larger ones.
class IdealLattice {
 public:
  struct Step {
    Unit unit = 0;
    std::uint32_t to = 0;
  };

  /// All ideals; nothing where there are more than `most`.
  static std::optional<IdealLattice> whole(const UnitGraph& units, std::size_t most);
  /// Those that are the beginnings of orders of all units.
  static IdealLattice of_orders(const UnitGraph& units, std::span<const std::vector<Unit>> orders);

  [[nodiscard]] std::size_t size() const { return first_step_.size() - 1; }
  [[nodiscard]] std::span<const Step> steps(std::size_t ideal) const {
    return {steps_.data() + first_step_[ideal], first_step_[ideal + 1] - first_step_[ideal]};
  }
  /// The units of an ideal that are not in a smaller one.
  [[nodiscard]] std::vector<Unit> difference(std::size_t smaller, std::size_t larger) const;
  [[nodiscard]] bool holds(std::size_t ideal, Unit unit) const {
    return ((words_of(ideal)[unit / 64] >> (unit % 64)) & 1) != 0;
  }

 private:
  explicit IdealLattice(std::size_t units) : words_((units + 63) / 64) {}

  [[nodiscard]] const std::uint64_t* words_of(std::size_t ideal) const {
    return sets_.data() + ideal * words_;
  }

  std::size_t words_;
  std::vector<std::uint64_t> sets_;
  std::vector<std::uint32_t> first_step_;
  std::vector<Step> steps_;
};

}  // namespace harmonics::inline in_plan
