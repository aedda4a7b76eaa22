// What a set of units costs a stage, kept up to date while units come and go.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <harmonics/plan/cost_model.h>

#include "unit_graph.h"

namespace harmonics::inline in_plan {

/// A stack of units. Leaving restores what was there, so that nothing is rounded twice.
class StageLoad {
 public:
  explicit StageLoad(const UnitGraph& units)
      : units_(units), made_(units.tensors.size(), 0), taken_(units.tensors.size(), 0) {
    sums_.assign(units.devices + 3, 0);
  }

  void push(Unit unit) {
    saved_.insert(saved_.end(), sums_.begin(), sums_.end());
    pushed_.push_back(unit);
    for (std::size_t d = 0; d < units_.devices; ++d) sums_[d] += units_.time(unit, d);
    double* const rest = sums_.data() + units_.devices;
    rest[0] += units_.memory_mb[unit];
    for (const std::uint32_t k : units_.touching[unit]) {
      const UnitTensor& tensor = units_.tensors[k];
      if (tensor.producer == unit) {
        made_[k] = 1;
        if (taken_[k] > 0) rest[1] -= tensor.bytes;
        if (taken_[k] < tensor.consumers.size()) rest[2] += tensor.bytes;
      } else {
        ++taken_[k];
        if (made_[k] == 0) {
          if (taken_[k] == 1) rest[1] += tensor.bytes;
        } else if (taken_[k] == tensor.consumers.size()) {
          rest[2] -= tensor.bytes;
        }
      }
    }
  }

  void pop() {
    const Unit unit = pushed_.back();
    pushed_.pop_back();
    for (const std::uint32_t k : units_.touching[unit]) {
      if (units_.tensors[k].producer == unit) {
        made_[k] = 0;
      } else {
        --taken_[k];
      }
    }
    std::copy(saved_.end() - static_cast<std::ptrdiff_t>(sums_.size()), saved_.end(),
              sums_.begin());
    saved_.resize(saved_.size() - sums_.size());
  }

  [[nodiscard]] std::size_t size() const { return pushed_.size(); }
  [[nodiscard]] double compute_s(std::size_t device) const { return sums_[device]; }
  [[nodiscard]] double memory_mb() const { return sums_[units_.devices]; }
  /// The time of the stage on a device.
  [[nodiscard]] double stage_s(std::size_t device, double s_per_byte, Overlap overlap) const {
    const double in = std::max(0.0, sums_[units_.devices + 1]) * s_per_byte;
    const double out = std::max(0.0, sums_[units_.devices + 2]) * s_per_byte;
    const double compute = sums_[device];
    return overlap == Overlap::kNone ? compute + in + out : std::max({compute, in, out});
  }

 private:
  const UnitGraph& units_;
  std::vector<std::uint8_t> made_;    // whether a tensor's producer is here
  std::vector<std::uint32_t> taken_;  // how many of its consumers are
  std::vector<double> sums_;          // seconds per device, memory, bytes in, bytes out
  std::vector<double> saved_;
  std::vector<Unit> pushed_;
};

}  // namespace harmonics::inline in_plan
