#include <harmonics/schedule/secure_chain.h>

#include <harmonics/runtime/secure_run.h>

#include "pipeline_runner.h"

namespace harmonics::inline in_schedule {

void make_secure(StageChain& chain, const RuntimeOptions& options,
                 const PipelineOptions& pipeline) {
  chain.set_custody(make_custody(chain, options.secure, signing_key(options.secure)));
  chain.set_runner(make_pipeline_runner(chain, pipeline, options.threads));
}

}  // namespace harmonics::inline in_schedule
