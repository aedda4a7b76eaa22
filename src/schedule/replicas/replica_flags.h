// ReplicaFlags: numbers that replicas tell each other with the sums of a step (private to
// schedule).
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace harmonics::inline in_schedule {

/// For each replica whether its loss is not finite and what a row took; and how many wish that the
/// fit ends, or have heard of a replica that wants to come back. They are added up as they are:
/// each replica sets its own.
class ReplicaFlags {
 public:
  explicit ReplicaFlags(std::size_t replicas)
      : replicas_(replicas), values_(2 * replicas + 2, 0.0) {}
  ReplicaFlags(std::size_t replicas, std::vector<double> sums)
      : replicas_(replicas), values_(std::move(sums)) {}

  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] std::span<const double> values() const { return values_; }

  void set_not_finite(std::size_t replica) { values_[replica] = 1; }
  void set_seconds_per_row(std::size_t replica, double seconds) {
    values_[replicas_ + replica] = seconds;
  }
  void set_wishes(bool end, bool newcomer) {
    values_[2 * replicas_] = end ? 1 : 0;
    values_[2 * replicas_ + 1] = newcomer ? 1 : 0;
  }

  [[nodiscard]] std::optional<std::size_t> first_not_finite() const {
    const auto end = values_.begin() + static_cast<std::ptrdiff_t>(replicas_);
    const auto first = std::find_if(values_.begin(), end, [](double flag) { return flag > 0; });
    if (first == end) return std::nullopt;
    return static_cast<std::size_t>(first - values_.begin());
  }
  [[nodiscard]] std::span<const double> seconds_per_row() const {
    return values().subspan(replicas_, replicas_);
  }
  [[nodiscard]] bool end_is_wished() const { return values_[2 * replicas_] > 0; }
  [[nodiscard]] bool newcomer_waits() const { return values_[2 * replicas_ + 1] > 0; }

 private:
  std::size_t replicas_;
  std::vector<double> values_;
};

}  // namespace harmonics::inline in_schedule
