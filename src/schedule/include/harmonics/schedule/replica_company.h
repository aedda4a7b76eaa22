// ReplicaCompany: which replicas of a run live, as each of them hears it.
//
// Replicas that learn together elastically ask it whom to sum with: at the start, when another one
// went away, and when one comes back. Whoever keeps the replicas answers all of them alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <harmonics/schedule/reduction.h>

namespace harmonics::inline in_schedule {

/// Where a replica stands.
struct ReplicaStanding {
  /// Steps that its weights have seen.
  std::uint64_t steps = 0;
  /// It has the sums of the next step, but does not know whether all others have them.
  bool holds_sums = false;
  /// It is between two steps, so that it can hand on its state.
  bool between_steps = false;
  /// How batches were dealt out so far (BatchShares).
  std::string shares;
};

/// Who goes on together.
struct ReplicaGroup {
  /// Numbers of the replicas, rising: their ranks in the reduction.
  std::vector<std::size_t> members;
  /// This one's.
  ReductionEnds ends;
  /// How batches were dealt out up to here, in whoever has seen all of it.
  std::string shares;
  /// Another replica has taken over the sums that this one holds: so must this one.
  bool take_over = false;
};

/// One thread, save newcomer_waits.
class ReplicaCompany {
 public:
  virtual ~ReplicaCompany() = default;

  /// Of all replicas of the run, whoever lives, and which of them this one is.
  [[nodiscard]] virtual std::size_t replicas() const = 0;
  [[nodiscard]] virtual std::size_t number() const = 0;
  /// Says where this one stands and waits until all that live have said so. Ends of earlier groups
  /// are of no use any more. `hand_on` writes this one's state to a file, for one that comes back.
  [[nodiscard]] virtual ReplicaGroup regroup(
      const ReplicaStanding& standing,
      const std::function<void(const std::filesystem::path&)>& hand_on) = 0;
  /// True while one that came back waits to be let in between two steps. Any thread.
  [[nodiscard]] virtual bool newcomer_waits() const = 0;
};

}  // namespace harmonics::inline in_schedule
