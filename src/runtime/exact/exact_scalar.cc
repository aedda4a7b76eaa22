// Without vectors: the reference, on every machine. A fused multiply-add may be a call of the C
// library.
#define HARMONICS_EXACT_WIDTH 1
#include "exact_table.h"

namespace harmonics::inline in_runtime {

const ExactKernels& exact_kernels_scalar() {
  static constexpr ExactKernels kTable = exact_table("scalar");
  return kTable;
}

}  // namespace harmonics::inline in_runtime
