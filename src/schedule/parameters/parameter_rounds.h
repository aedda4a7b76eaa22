// ParameterRounds: when a parameter server applies gradients and whom it answers (private to
// schedule).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include <harmonics/schedule/parameter_server.h>

namespace harmonics::inline in_schedule {

/// Pure: it is told what the workers do and says what follows. Workers are told apart by number.
/// Until it has begun, which it does by itself once every worker has joined, nobody is answered.
class ParameterRounds {
 public:
  /// What follows from an event: first the gradients of these workers make one update, added up in
  /// this order, then these workers get the parameters.
  struct Answer {
    std::vector<std::uint32_t> apply = {};
    std::vector<std::uint32_t> release = {};
    bool operator==(const Answer&) const = default;
  };

  ParameterRounds(ParameterMode mode, std::uint32_t staleness, std::uint32_t workers);

  /// A worker came and wants parameters; it starts where the slowest stands.
  [[nodiscard]] Answer joined(std::uint32_t worker);
  /// A worker has sent gradients and wants parameters. It must have been released before.
  [[nodiscard]] Answer pushed(std::uint32_t worker);
  /// A worker is gone. What it sent and was not applied is dropped.
  [[nodiscard]] Answer left(std::uint32_t worker);
  /// Those who have come are enough.
  [[nodiscard]] Answer begin();

  [[nodiscard]] bool begun() const { return begun_; }
  [[nodiscard]] std::size_t live() const { return clocks_.size(); }
  /// The most steps that a worker has ever been ahead of the slowest when it was released.
  [[nodiscard]] std::uint64_t longest_lead() const { return longest_lead_; }

 private:
  [[nodiscard]] Answer settle();
  void settle_together(Answer& answer);
  void settle_within_bound(Answer& answer);

  const ParameterMode mode_;
  const std::uint32_t staleness_;
  const std::uint32_t workers_;
  bool begun_ = false;
  std::map<std::uint32_t, std::uint64_t> clocks_;  // gradients sent, of those who are here
  std::set<std::uint32_t> waiting_;                // for parameters
  std::set<std::uint32_t> pushed_;                 // gradients that are not applied yet
  std::uint64_t longest_lead_ = 0;
};

}  // namespace harmonics::inline in_schedule
