// The insides of ServerReactor.
#pragma once

#include <utility>

#include <harmonics/cluster/reactor.h>

#include "scheduler.h"
#include "sessions.h"

namespace harmonics {

struct ServerReactor::Parts {
  Parts(ClusterState loaded, WorkloadPolicy& policy, ServerOptions given)
      : state(std::move(loaded)),
        options(given),
        term{state.term().value + 1},
        sessions(term, options.lease + options.drift),
        scheduler(policy) {}

  ClusterState state;
  ServerOptions options;
  Term term;
  Sessions sessions;
  Scheduler scheduler;
  bool dirty = true;  ///< Something has changed since the last pass over the queue.
};

}  // namespace harmonics
