// One line per backend: how its stages are made (private to runtime). Graphs must be resolved.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <harmonics/base/error.h>
#include <harmonics/runtime/stage_backend.h>

namespace harmonics::inline in_runtime {

/// Warns that the CPU computes instead, because of what is `lacking`; under `strict` that is an
/// Error: kUnimplemented where this build cannot, kFailedPrecondition where this machine cannot.
void fall_back_to_cpu(ErrorCode code, const std::string& lacking, bool strict);

/// libtorch on the CPU or a CUDA device.
[[nodiscard]] std::unique_ptr<StageBackend> make_torch_backend(HarmonicGraph graph,
                                                               const RuntimeOptions& options,
                                                               Device device);
/// OpenCL, on a device of list_opencl_devices(). The graph computes in float32.
[[nodiscard]] std::unique_ptr<StageBackend> make_opencl_backend(HarmonicGraph graph,
                                                                const RuntimeOptions& options,
                                                                std::size_t device);
/// The reproducible arithmetic, on the CPU unless a device is asked for by name. A layer,
/// activation or loss that it does not know is an Error (kUnimplemented) that names it.
[[nodiscard]] std::unique_ptr<StageBackend> make_exact_backend(HarmonicGraph graph,
                                                               const RuntimeOptions& options);

}  // namespace harmonics::inline in_runtime
