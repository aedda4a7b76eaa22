// Matrix products by CLBlast. The one file that knows it.
#include "opencl_queue_state.h"

#include <clblast.h>

#include <harmonics/base/error.h>

namespace harmonics::inline in_runtime {
namespace {

clblast::Transpose transpose(bool transposed) {
  return transposed ? clblast::Transpose::kYes : clblast::Transpose::kNo;
}

}  // namespace

void OpenClQueue::multiply(const MatrixProduct& product) {
  const auto m = static_cast<std::size_t>(product.rows);
  const auto n = static_cast<std::size_t>(product.columns);
  const auto k = static_cast<std::size_t>(product.inner);
  if (m == 0 || n == 0 || k == 0) return;
  const auto status = clblast::Gemm<float>(
      clblast::Layout::kRowMajor, transpose(product.a.transposed), transpose(product.b.transposed),
      m, n, k, 1.0f, product.a.tensor.memory->block(), static_cast<std::size_t>(product.a.offset),
      product.a.transposed ? m : k, product.b.tensor.memory->block(),
      static_cast<std::size_t>(product.b.offset), product.b.transposed ? k : n, product.beta,
      product.c.memory->block(), static_cast<std::size_t>(product.c_offset), n, &state_->queue,
      nullptr);
  if (status != clblast::StatusCode::kSuccess) {
    fail(ErrorCode::kInternal, "{}: CLBlast refused a product of {}x{} by {}x{} (status {})",
         state_->operation, m, k, k, n, static_cast<int>(status));
  }
}

}  // namespace harmonics::inline in_runtime
