// Who is connected and until when their leases last: what the server knows but does not store.
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <harmonics/cluster/reactor.h>

namespace harmonics::inline in_cluster {

class Sessions {
 public:
  /// `promised` is what workers may have been told that have not said hello to this server.
  Sessions(Term term, const ServerOptions& options, const LeasesPromised& promised)
      : term_(term),
        met_{with_drift(options.lease, options),
             with_drift(std::max(options.hold, options.lease), options)},
        unmet_{with_drift(promised.lease, options), with_drift(promised.hold, options)},
        rest_(options.rest),
        max_rest_(options.max_rest) {}

  /// A duration on a worker's clock, as long as it can be on ours.
  static Nanoseconds with_drift(Nanoseconds duration, const ServerOptions& options);

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

  /// It was unable to start a task. True: from now on it rests; false: it did so already.
  bool unable(WorkerId worker, const std::string& reason, Time now);
  /// A task was started or has ended there: `well` if the worker did its part. True: it may be
  /// given more than before.
  bool tried(WorkerId worker, bool well);
  /// One that was unable is given a task. True: it gets no other until that one has started.
  bool give(WorkerId worker);
  /// Gets no tasks for reasons of its own.
  [[nodiscard]] bool resting(WorkerId worker) const;
  /// The workers whose rest has ended since the last call.
  [[nodiscard]] std::vector<WorkerId> take_rested(Time now);

  /// The workers whose lease + drift have passed since the last call; they are expired now.
  [[nodiscard]] std::vector<WorkerId> take_expired(Time now);
  /// The workers whose hold has passed, too, since the last call.
  [[nodiscard]] std::vector<WorkerId> take_overdue(Time now);
  /// Not later than the next expiry, end of a hold or of a rest; kNever if there is none.
  [[nodiscard]] Time deadline() const;

 private:
  /// How long silence may last until the lease and the hold are over, drift included.
  struct Patience {
    Nanoseconds lease{};
    Nanoseconds hold{};
  };
  /// Of a worker that is waited for: one without a view is a bug.
  [[nodiscard]] SessionView& view_of(WorkerId worker);
  /// A view as of one that was heard just now, with what is known of its health.
  void renew(WorkerId worker, Time now);
  [[nodiscard]] const Patience& patience(const SessionView& view) const {
    return view.met ? met_ : unmet_;
  }

  using Expiry = std::pair<Time, WorkerId>;

  Term term_;
  Patience met_;
  Patience unmet_;
  Nanoseconds rest_;
  Nanoseconds max_rest_;
  std::uint32_t opened_ = 0;
  std::unordered_map<WorkerId, SessionView> views_;
  /// One or two entries for each session that has not expired, the first at or before its expiry.
  std::priority_queue<Expiry, std::vector<Expiry>, std::greater<>> expiries_;
  std::set<Expiry> holds_;  ///< One entry for each that has expired, until its hold has passed.
  std::set<Expiry> rests_;  ///< One entry for each worker that rests.
};

}  // namespace harmonics::inline in_cluster
