#include "parameter_rounds.h"

#include <algorithm>

#include <harmonics/base/check.h>

namespace harmonics::inline in_schedule {

ParameterRounds::ParameterRounds(ParameterMode mode, std::uint32_t staleness, std::uint32_t workers)
    : mode_(mode), staleness_(staleness), workers_(workers) {}

ParameterRounds::Answer ParameterRounds::joined(std::uint32_t worker) {
  std::uint64_t slowest = 0;
  if (!clocks_.empty()) {
    slowest =
        std::ranges::min_element(clocks_, {}, [](const auto& one) { return one.second; })->second;
  }
  clocks_.insert_or_assign(worker, slowest);
  waiting_.insert(worker);
  return settle();
}

ParameterRounds::Answer ParameterRounds::pushed(std::uint32_t worker) {
  const auto clock = clocks_.find(worker);
  HARMONICS_CHECK(clock != clocks_.end(), "worker {} pushes and never joined", worker);
  pushed_.insert(worker);
  ++clock->second;
  waiting_.insert(worker);
  return settle();
}

ParameterRounds::Answer ParameterRounds::left(std::uint32_t worker) {
  clocks_.erase(worker);
  pushed_.erase(worker);
  waiting_.erase(worker);
  return settle();
}

ParameterRounds::Answer ParameterRounds::begin() {
  begun_ = true;
  return settle();
}

ParameterRounds::Answer ParameterRounds::settle() {
  Answer answer;
  if (clocks_.size() == workers_) begun_ = true;
  if (!begun_) return answer;
  if (mode_ == ParameterMode::Synchronous) {
    settle_together(answer);
  } else {
    settle_within_bound(answer);
  }
  for (const std::uint32_t worker : answer.release) waiting_.erase(worker);
  return answer;
}

// All gradients of a round make one update. Whoever came without any gets parameters at once.
void ParameterRounds::settle_together(Answer& answer) {
  if (!pushed_.empty() && pushed_.size() == clocks_.size()) {
    answer.apply.assign(pushed_.begin(), pushed_.end());
    pushed_.clear();
  }
  for (const std::uint32_t worker : waiting_) {
    if (!pushed_.contains(worker)) answer.release.push_back(worker);
  }
}

// Gradients are applied as they come; who is too far ahead waits for the slowest.
void ParameterRounds::settle_within_bound(Answer& answer) {
  answer.apply.assign(pushed_.begin(), pushed_.end());
  pushed_.clear();
  if (clocks_.empty()) return;
  const std::uint64_t slowest =
      std::ranges::min_element(clocks_, {}, [](const auto& one) { return one.second; })->second;
  for (const std::uint32_t worker : waiting_) {
    HARMONICS_CHECK(clocks_.contains(worker), "worker {} waits and has left", worker);
    const std::uint64_t lead = clocks_.at(worker) - slowest;
    if (lead > staleness_) continue;
    longest_lead_ = std::max(longest_lead_, lead);
    answer.release.push_back(worker);
  }
}

}  // namespace harmonics::inline in_schedule
