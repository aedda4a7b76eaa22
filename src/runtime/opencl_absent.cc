// What stands in for the OpenCL backend in a build without it.
#include <harmonics/base/error.h>
#include <harmonics/runtime/opencl_devices.h>

#include "backends.h"

namespace harmonics {

bool opencl_is_built() { return false; }

std::vector<OpenClDevice> list_opencl_devices() { return {}; }

std::unique_ptr<StageBackend> make_opencl_backend(HarmonicGraph, const RuntimeOptions&,
                                                  std::size_t) {
  fail(ErrorCode::kUnimplemented,
       "this build has no OpenCL part: configure it with HARMONICS_WITH_OPENCL=ON");
}

}  // namespace harmonics
