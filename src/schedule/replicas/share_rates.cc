#include "share_rates.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace harmonics::inline in_schedule {

void ShareRates::note(std::span<const double> seconds_per_row) {
  ++steps_;
  for (std::size_t i = 0; i < seconds_.size(); ++i) {
    if (!(seconds_per_row[i] > 0) || !std::isfinite(seconds_per_row[i])) continue;
    seconds_[i].push_back(seconds_per_row[i]);
    if (seconds_[i].size() > kRatedSteps) seconds_[i].pop_front();
  }
}

void ShareRates::clear() {
  for (std::deque<double>& own : seconds_) own.clear();
  steps_ = 0;
}

double ShareRates::median_of(std::size_t replica) const {
  std::vector<double> sorted(seconds_[replica].begin(), seconds_[replica].end());
  std::ranges::sort(sorted);
  return sorted[sorted.size() / 2];
}

std::optional<ShareWeights> ShareRates::better(std::int64_t rows, const ShareWeights& current) {
  if (steps_ < kLeastRatedSteps) return std::nullopt;
  std::vector<double> seconds(current.size(), 0.0);
  for (std::size_t i = 0; i < current.size(); ++i) {
    if (current[i] == 0) continue;
    if (seconds_[i].size() < kLeastRatedSteps) return std::nullopt;
    seconds[i] = median_of(i);
  }
  const auto slowest = [&](const ShareWeights& weights) {
    double longest = 0;
    const DealtRows dealt = deal_rows(rows, 1, weights);
    for (std::size_t i = 0; i < dealt.size(); ++i) {
      if (dealt[i].empty()) continue;
      longest = std::max(longest, seconds[i] * static_cast<double>(dealt[i].front()));
    }
    return longest;
  };
  ShareWeights wanted = shares_by_rates(rows, seconds);
  if (slowest(wanted) >= kWorthDealing * slowest(current)) return std::nullopt;
  clear();  // what a row takes depends on how many there are
  return wanted;
}

ShareWeights shares_by_rates(std::int64_t rows, std::span<const double> seconds) {
  double all = 0;
  for (const double one : seconds) all += one > 0 ? 1 / one : 0;
  ShareWeights shares(seconds.size(), 0);
  std::vector<std::size_t> by_remainder;
  std::vector<double> remainders(seconds.size(), 0.0);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (!(seconds[i] > 0)) continue;
    const double exact = static_cast<double>(rows) / (seconds[i] * all);
    shares[i] = std::max<std::int64_t>(1, static_cast<std::int64_t>(exact));
    remainders[i] = exact - std::floor(exact);
    by_remainder.push_back(i);
  }
  std::ranges::stable_sort(by_remainder, std::greater<>(),
                           [&](std::size_t i) { return remainders[i]; });
  std::int64_t left = rows - std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  for (std::size_t k = 0; left > 0 && !by_remainder.empty(); ++k, --left) {
    ++shares[by_remainder[k % by_remainder.size()]];
  }
  return shares;
}

}  // namespace harmonics::inline in_schedule
