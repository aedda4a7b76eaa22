// In a build without MPI.
#include <harmonics/dispatch/simple_mpi_scheduler.h>

#include <harmonics/base/error.h>

namespace harmonics::inline in_dispatch {

SimpleMPIScheduler::SimpleMPIScheduler(const SimpleMPIConfig& config)
    : SimpleMPIScheduler(choose(config)) {}

SimpleMPIScheduler::Choice SimpleMPIScheduler::choose(const SimpleMPIConfig&) {
  fail(ErrorCode::kUnimplemented,
       "this build has no MPI, which SimpleMPIScheduler needs: install an MPI library and build "
       "with "
       "HARMONICS_WITH_MPI=ON");
}

}  // namespace harmonics::inline in_dispatch
