// How much work a search may do, counted in steps so that the same input gives the same plan
// everywhere.
#pragma once

#include <cstdint>

namespace harmonics::inline in_plan {

/// A counter of steps with a limit. A step is what a core does in about 5 ns.
class WorkBudget {
 public:
  explicit WorkBudget(std::uint64_t limit) : limit_(limit) {}

  void charge(std::uint64_t steps) { spent_ += steps; }
  [[nodiscard]] bool exhausted() const { return spent_ >= limit_; }
  /// Whether more than this share is spent.
  [[nodiscard]] bool spent_share(double share) const {
    return static_cast<double>(spent_) >= share * static_cast<double>(limit_);
  }
  [[nodiscard]] std::uint64_t spent() const { return spent_; }
  [[nodiscard]] std::uint64_t limit() const { return limit_; }

 private:
  std::uint64_t limit_;
  std::uint64_t spent_ = 0;
};

}  // namespace harmonics::inline in_plan
