// A row of stages that is run by hand, made secure.
#pragma once

#include <harmonics/schedule/pipeline.h>
#include <harmonics/schedule/stage_row.h>

namespace harmonics::inline in_schedule {

/// From now on every tensor between the parts of `row`, and what leaves the graph, is signed and
/// checked, on a thread per part; SecureRun::close of its custody ends the run. All parts must be
/// in the row. What a DistributedScheduler with `secure` does, for those who have only a row.
void make_secure(StageRow& row, const RuntimeOptions& options,
                 const PipelineOptions& pipeline = {});

}  // namespace harmonics::inline in_schedule
