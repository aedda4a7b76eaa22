// PipelineRunner: the parts of a chain at work at the same time, one thread each (private to
// schedule).
#pragma once

#include <memory>

#include <harmonics/runtime/stage_chain.h>
#include <harmonics/schedule/pipeline.h>

namespace harmonics {

/// A runner for the stages of `chain`: boundaries are buses, micro-batches flow in the given order.
/// An Error or a loss that is not finite in one part stops all parts within the batch; the next
/// batch starts afresh. Ends of a boundary that disagree about gradients, or more than
/// kMaxPipelineParts parts, are an Error here.
[[nodiscard]] std::unique_ptr<BatchRunner> make_pipeline_runner(const StageChain& chain,
                                                                const PipelineOptions& options,
                                                                int compute_threads);

}  // namespace harmonics
