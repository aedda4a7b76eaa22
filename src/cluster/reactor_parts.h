// The insides of ServerReactor.
#pragma once

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include <harmonics/cluster/reactor.h>

#include "requests.h"
#include "scheduler.h"
#include "sessions.h"

namespace harmonics::inline in_cluster {

struct ServerReactor::Parts {
  Parts(ClusterState loaded, WorkloadPolicy& policy, ServerOptions given)
      : state(std::move(loaded)),
        options(given),
        term{state.term().value + 1},
        promised{std::max(state.promised().lease, options.lease),
                 std::max({state.promised().hold, options.hold, options.lease})},
        sessions(term, options, promised),
        scheduler(policy) {
    state.order_by(policy);
  }

  ClusterState state;
  ServerOptions options;
  Term term;
  LeasesPromised promised;     ///< To workers that have not said hello to this server.
  Time promise_over = kNever;  ///< When none of them can hold anything any more.
  Sessions sessions;
  Scheduler scheduler;
  std::deque<Cancelling> cancels{};  ///< Arrays on their way out; nothing starts meanwhile.
  /// Back-offs that the store holds and that end later than any can: a clock was wrong. They end at
  /// `backoff_cap`.
  std::vector<TaskId> long_backoffs{};
  Time backoff_cap = kNever;
  Sweep::Change change = Sweep::Change::kAny;  ///< What came since the last pass over the queue.
  bool unfinished = false;                     ///< That pass stopped early.

  void changed(Sweep::Change what) { change = std::max(change, what); }
  /// Whether the next tick makes a pass, whatever happens until then.
  [[nodiscard]] bool pass_due() const { return unfinished || change != Sweep::Change::kNone; }
};

}  // namespace harmonics::inline in_cluster
