// In harmonics-text, which has no libtorch.
#include <harmonics/base/log.h>

#include "token_device.h"

namespace harmonics::inline in_text_program {

TokenDevice token_device(const TextComputing& computing, const WeightSource&) {
  if (computing.backend == TextBackend::kGpu) {
    log_warn("text",
             "no harmonics-text-torch lies beside this program (build with HARMONICS_WITH_TORCH=ON "
             "and a libtorch with CUDA): using the CPU instead");
  }
  return {};
}

}  // namespace harmonics::inline in_text_program
