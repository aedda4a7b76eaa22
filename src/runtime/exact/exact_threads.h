// Threads for the reproducible arithmetic: they split independent outputs, so that their number
// never changes a bit (private to runtime).
#pragma once

#include <cstdint>
#include <functional>

#include "exact_kernels.h"

namespace harmonics::inline in_runtime {

/// Calls `work` for ranges that make up [0, count), each of at least `grain` but for the last, on
/// as many threads as use_compute_threads allows. Within such a call it runs on the calling thread.
void in_exact_threads(std::int64_t count, std::int64_t grain,
                      const std::function<void(std::int64_t, std::int64_t)>& work);

/// A product of matrices on this thread alone.
void multiply_here(const ExactKernels& kernels, const ExactProduct& product);
/// The same, its rows or columns split among threads where that is worth it.
void multiply_in_threads(const ExactKernels& kernels, const ExactProduct& product);

/// Elements below which a loop over elements is not split.
inline constexpr std::int64_t kExactGrain = 16384;

}  // namespace harmonics::inline in_runtime
