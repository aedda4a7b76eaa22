// Where libtorch has no CUDA there is nothing to record.
#include "torch/recorded_pass.h"

namespace harmonics::inline in_runtime {

std::unique_ptr<PassRecorder> make_pass_recorder(Device /*device*/) { return nullptr; }

}  // namespace harmonics::inline in_runtime
