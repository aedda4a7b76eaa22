// What stands in for the OpenCL backend in a program that does not link harmonics::runtime_opencl.
#include <harmonics/base/error.h>
#include <harmonics/runtime/opencl_devices.h>

#include "backends.h"
#include "exact_device/exact_device.h"

namespace harmonics::inline in_runtime {

[[gnu::weak]] bool opencl_is_built() { return false; }

[[gnu::weak]] std::vector<OpenClDevice> list_opencl_devices() { return {}; }

[[gnu::weak]] std::unique_ptr<StageBackend> make_opencl_backend(HarmonicGraph,
                                                                const RuntimeOptions&,
                                                                std::size_t) {
  fail(ErrorCode::kUnimplemented,
       "this program has no OpenCL backend: link harmonics::runtime_opencl (of a build with "
       "HARMONICS_WITH_OPENCL=ON)");
}

[[gnu::weak]] std::unique_ptr<ExactDevice> make_exact_opencl_device(std::size_t, std::uint64_t) {
  fail(ErrorCode::kUnimplemented,
       "this program has no OpenCL devices: link harmonics::runtime_opencl (of a build with "
       "HARMONICS_WITH_OPENCL=ON)");
}

}  // namespace harmonics::inline in_runtime
