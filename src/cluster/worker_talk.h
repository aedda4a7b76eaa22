// What workers say and what their silence means.
#pragma once

#include <harmonics/cluster/event.h>

#include "decisions.h"

namespace harmonics::inline in_cluster {

void decide(Decisions& step, const WorkerHello& event);
void decide(Decisions& step, const WorkerSays& event);
void decide(Decisions& step, const WorkerGone& event);
/// Lease and drift have passed in silence.
void give_up_worker(Decisions& step, WorkerId worker);
/// The hold has passed since the worker was last heard: what continued there is over too.
void give_up_held(Decisions& step, WorkerId worker);

}  // namespace harmonics::inline in_cluster
