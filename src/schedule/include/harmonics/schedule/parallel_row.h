// A row of stages that is run by hand, with its parts at work at the same time.
#pragma once

#include <harmonics/schedule/pipeline.h>
#include <harmonics/schedule/stage_row.h>

namespace harmonics::inline in_schedule {

/// From now on each part of `row` has a thread of its own and computes on `compute_threads`, and
/// micro-batches flow through them. All parts must be in the row. What a DistributedScheduler does,
/// for those who have only a row.
void make_parallel(StageRow& row, int compute_threads, const PipelineOptions& pipeline = {});

}  // namespace harmonics::inline in_schedule
