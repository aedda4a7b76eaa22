// Output of a task, read by the server itself from the worker that has it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include <harmonics/rpc/tls.h>
#include <harmonics/rpc/views.h>

namespace harmonics::inline in_rpc {

/// Hands out the pieces of `query` that lie at `place`, in order, until the end, until `take` says
/// no, or until `patience` is over (an Error, kDeadlineExceeded). A worker that cannot be reached
/// is an Error (kFailedPrecondition) that says so. Waits; any thread.
void fetch_output(const OutputPlace& place, const OutputQuery& query,
                  const std::optional<TlsFiles>& tls, std::chrono::milliseconds patience,
                  const std::function<bool(const OutputPiece&)>& take);

/// The worker's answer to the stream "artifacts": a JSON object in each line.
[[nodiscard]] std::vector<ArtifactView> parse_artifact_list(const std::string& text);

}  // namespace harmonics::inline in_rpc
