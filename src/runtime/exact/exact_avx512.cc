// Compiled for AVX-512 (F).
#define HARMONICS_EXACT_WIDTH 16
#include "exact_table.h"

namespace harmonics::inline in_runtime {

const ExactKernels& exact_kernels_avx512() {
  static constexpr ExactKernels kTable = exact_table("avx512");
  return kTable;
}

}  // namespace harmonics::inline in_runtime
