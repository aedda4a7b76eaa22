// A chain of stages that is run by hand, made secure.
#pragma once

#include <harmonics/runtime/stage_chain.h>
#include <harmonics/schedule/pipeline.h>

namespace harmonics::inline in_schedule {

/// From now on every tensor between the parts of `chain`, and what leaves the graph, is signed and
/// checked, on a thread per part; SecureRun::close of its custody ends the run. All parts must be
/// in the chain. What a DistributedScheduler with `secure` does, for those who have only a chain.
void make_secure(StageChain& chain, const RuntimeOptions& options,
                 const PipelineOptions& pipeline = {});

}  // namespace harmonics::inline in_schedule
