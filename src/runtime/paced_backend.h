// A backend that watches another one's passes: poses as a slower device, keeps a trace (private to
// runtime).
#pragma once

#include <filesystem>
#include <memory>

#include <harmonics/runtime/stage_backend.h>

namespace harmonics::inline in_runtime {

/// A file to which every pass is appended as a line of JSON: {"pass": "forward", "step": 7,
/// "micro_batch": 0, "begin": 1.5, "end": 1.6}, in seconds since 1970. Batches of a
/// stage that only computes count from 0.
inline constexpr const char* kPassTraceVariable = "HARMONICS_PASS_TRACE";
/// Passes that a trace holds at most; later ones are not written.
inline constexpr std::int64_t kMaxTracedPasses = 200'000;

/// `backend` as it is where neither this variable nor kSlowdownVariable (base/slowdown.h) is set
/// and no file is given, else with its passes slowed down or traced: into `trace`, or the file of
/// the variable where that is empty. A variable that makes no sense is an Error. The answers are
/// the same either way.
[[nodiscard]] std::unique_ptr<StageBackend> make_paced_backend(
    std::unique_ptr<StageBackend> backend, const std::filesystem::path& trace);

}  // namespace harmonics::inline in_runtime
