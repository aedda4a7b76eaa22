#include "exact_threads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

namespace harmonics::inline in_runtime {
namespace {

// Multiply-adds that are worth a thread, and what ranges of rows and columns are rounded to, so
// that tiles are full for every width of vectors.
constexpr std::int64_t kProductGrain = std::int64_t{1} << 18;
constexpr std::int64_t kRowStep = 12, kColumnStep = 32;

}  // namespace

void in_exact_threads(std::int64_t count, std::int64_t grain,
                      const std::function<void(std::int64_t, std::int64_t)>& work) {
  if (count <= 0) return;
  at::parallel_for(0, count, std::max<std::int64_t>(grain, 1), work);
}

void multiply_here(const ExactKernels& kernels, const ExactProduct& product) {
  thread_local std::vector<float> scratch(kExactProductScratch);
  kernels.multiply(product, scratch.data());
}

void multiply_in_threads(const ExactKernels& kernels, const ExactProduct& product) {
  const bool by_rows = product.m >= product.n;
  const std::int64_t extent = by_rows ? product.m : product.n;
  const std::int64_t step = by_rows ? kRowStep : kColumnStep;
  const std::int64_t each =
      std::max<std::int64_t>((by_rows ? product.n : product.m) * product.k, 1);
  const std::int64_t grain = (kProductGrain / each + step) / step;
  in_exact_threads((extent + step - 1) / step, grain, [&](std::int64_t begin, std::int64_t end) {
    ExactProduct share = product;
    const std::int64_t first = begin * step, count = std::min(end * step, extent) - first;
    if (by_rows) {
      share.m = count;
      share.a += first * product.a_row;
      share.c += first * product.c_row;
    } else {
      share.n = count;
      share.b += first * product.b_column;
      share.c += first;
    }
    multiply_here(kernels, share);
  });
}

}  // namespace harmonics::inline in_runtime
