// For arm64, all of which has these vectors.
#define HARMONICS_EXACT_WIDTH 4
#include "exact_table.h"

namespace harmonics::inline in_runtime {

const ExactKernels& exact_kernels_neon() {
  static constexpr ExactKernels kTable = exact_table("neon");
  return kTable;
}

}  // namespace harmonics::inline in_runtime
