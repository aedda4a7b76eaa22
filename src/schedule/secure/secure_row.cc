#include <harmonics/schedule/secure_row.h>

#include <harmonics/schedule/secure_run.h>

#include "parts/pipeline_runner.h"

namespace harmonics::inline in_schedule {

void make_secure(StageRow& row, const RuntimeOptions& options, const PipelineOptions& pipeline) {
  row.set_custody(make_custody(row, options.secure, signing_key(options.secure)));
  row.set_runner(make_pipeline_runner(row, pipeline, options.threads));
}

}  // namespace harmonics::inline in_schedule
