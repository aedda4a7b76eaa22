#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

#include "exact_kernels.h"

namespace harmonics::inline in_runtime {
namespace {

// The narrowest first.
std::vector<const ExactKernels*> runnable() {
  std::vector<const ExactKernels*> all = {&exact_kernels_scalar()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    all.push_back(&exact_kernels_avx2());
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma")) {
    all.push_back(&exact_kernels_avx512());
  }
#elif defined(__aarch64__)
  all.push_back(&exact_kernels_neon());
#endif
  return all;
}

}  // namespace

std::vector<std::string> exact_kernel_names() {
  std::vector<std::string> names;
  for (const ExactKernels* kernels : runnable()) names.emplace_back(kernels->name);
  return names;
}

const ExactKernels& exact_kernels(std::string_view name) {
  for (const ExactKernels* kernels : runnable()) {
    if (kernels->name == name) return *kernels;
  }
  fail(ErrorCode::kInvalidArgument,
       "HARMONICS_EXACT={}: this machine runs no such kernels; it runs: {}", name,
       listed(exact_kernel_names()));
}

const ExactKernels& exact_kernels() {
  const std::string wanted = environment_text("HARMONICS_EXACT");
  if (!wanted.empty()) return exact_kernels(wanted);
  return *runnable().back();
}

}  // namespace harmonics::inline in_runtime
