// Reads what supervisors keep of a task's output (private to worker).
#pragma once

#include <filesystem>
#include <functional>

#include <harmonics/rpc/output_service.h>

namespace harmonics::inline in_worker {

/// Hands out the stream from `query.offset` on, or from the oldest byte that is kept if that is
/// later. With `query.follow` it waits for more until the attempt has ended; an empty piece then
/// asks whether anyone still listens. Artifacts are there once the attempt has ended; before that,
/// and for a path that is none of them, kNotFound. Any thread.
void read_output(const std::filesystem::path& worker_folder, AttemptId attempt,
                 const OutputQuery& query, const OutputService::Take& take);

}  // namespace harmonics::inline in_worker
