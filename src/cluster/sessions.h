// Who is connected and until when their leases last: what the server knows but does not store.
#pragma once

#include <cstdint>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include <harmonics/cluster/reactor.h>

namespace harmonics {

class Sessions {
 public:
  /// `patience` is lease + drift.
  Sessions(Term term, Nanoseconds patience) : term_(term), patience_(patience) {}

  /// A worker that the store knows: it has from now on a full lease to come back.
  void expect(WorkerId worker, Time now);
  /// A new session; the old one, if any, is over.
  Epoch open(WorkerId worker, Time now);
  void close(WorkerId worker);
  void forget(WorkerId worker);
  void heard(WorkerId worker, Time now);

  /// Null when the worker was never seen in this term.
  [[nodiscard]] const SessionView* find(WorkerId worker) const;
  [[nodiscard]] bool current(WorkerId worker, Epoch epoch) const;
  [[nodiscard]] bool expired(WorkerId worker) const;

  /// The workers whose lease + drift have passed since the last call; they are expired now.
  [[nodiscard]] std::vector<WorkerId> take_expired(Time now);
  /// Not later than the next expiry; kNever if there is none.
  [[nodiscard]] Time deadline() const;

 private:
  using Expiry = std::pair<Time, WorkerId>;

  Term term_;
  Nanoseconds patience_;
  std::uint32_t opened_ = 0;
  std::unordered_map<WorkerId, SessionView> views_;
  /// One entry for each session that has not expired, at or before its expiry.
  std::priority_queue<Expiry, std::vector<Expiry>, std::greater<>> expiries_;
};

}  // namespace harmonics
