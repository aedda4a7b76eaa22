// ShareRates: how fast replicas are, and shares of a batch that suit them (private to schedule).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include <harmonics/settings/batch_shares.h>

namespace harmonics::inline in_schedule {

/// How many of the last steps count, and how many there must be since the shares changed.
inline constexpr std::size_t kRatedSteps = 5;
inline constexpr std::size_t kLeastRatedSteps = 3;
/// Shares change when the passes of a batch would take less than this part of what they take.
inline constexpr double kWorthDealing = 0.95;

/// Decides alike wherever it is told the same. One thread.
class ShareRates {
 public:
  explicit ShareRates(std::size_t replicas) : seconds_(replicas) {}

  /// What a row took in each replica in one step; 0 where it had none, or is gone.
  void note(std::span<const double> seconds_per_row);
  /// Rows for each replica that end the passes of a batch of `rows` sooner than these weights, by
  /// enough to be worth it; nothing where they would not, or where too little is known. One that
  /// has a share keeps a row at least, so that it goes on being measured.
  [[nodiscard]] std::optional<ShareWeights> better(std::int64_t rows, const ShareWeights& current);
  /// Forgets everything: who takes part has changed.
  void clear();

 private:
  [[nodiscard]] double median_of(std::size_t replica) const;

  std::vector<std::deque<double>> seconds_;  // of the last steps, by replica
  std::size_t steps_ = 0;                    // since the shares changed
};

/// `rows` shared out in inverse proportion to these seconds; 0 seconds: no rows.
[[nodiscard]] ShareWeights shares_by_rates(std::int64_t rows, std::span<const double> seconds);

}  // namespace harmonics::inline in_schedule
