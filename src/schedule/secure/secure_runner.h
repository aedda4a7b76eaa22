// A runner that keeps the custody of a graph that runs whole (private to schedule).
#pragma once

#include <memory>

#include <harmonics/schedule/batch_runner.h>
#include <harmonics/schedule/secure_run.h>

namespace harmonics::inline in_schedule {

/// For a row of one stage: what enters is noted, what leaves the graph is signed and received,
/// and each batch ends with a head. `secure` must outlive it and have its opening.
[[nodiscard]] std::unique_ptr<BatchRunner> make_secure_runner(SecureRun& secure);

}  // namespace harmonics::inline in_schedule
