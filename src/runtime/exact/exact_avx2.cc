// Compiled with -mavx2 -mfma.
#define HARMONICS_EXACT_WIDTH 8
#include "exact_table.h"

namespace harmonics::inline in_runtime {

const ExactKernels& exact_kernels_avx2() {
  static constexpr ExactKernels kTable = exact_table("avx2");
  return kTable;
}

}  // namespace harmonics::inline in_runtime
