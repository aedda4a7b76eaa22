// One line per backend: how its stages are made (private to runtime). Graphs must be resolved.
#pragma once

#include <cstddef>
#include <memory>

#include <harmonics/runtime/stage_backend.h>

namespace harmonics {

/// libtorch on the CPU or a CUDA device.
[[nodiscard]] std::unique_ptr<StageBackend> make_torch_backend(HarmonicGraph graph,
                                                               const RuntimeOptions& options,
                                                               Device device);
/// OpenCL, on a device of list_opencl_devices(). The graph computes in float32.
[[nodiscard]] std::unique_ptr<StageBackend> make_opencl_backend(HarmonicGraph graph,
                                                                const RuntimeOptions& options,
                                                                std::size_t device);

}  // namespace harmonics
