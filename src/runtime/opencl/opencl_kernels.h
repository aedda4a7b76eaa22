// The kernels of the OpenCL backend, in OpenCL C 1.2 (private to runtime).
//
// Every kernel's last argument is its number of work items (or, in kernels of whole work-groups, of
// groups), since global sizes are rounded up. Sums run in a fixed order and without atomics, so a
// kernel gives the same bits every time.
#pragma once

#include <string>

namespace harmonics::inline in_runtime {

/// Element by element: sums, products, activations, copies, dropout, optimisers.
extern const char* const kElementKernels;
/// Rows and channels: sums, softmax, norms.
extern const char* const kRowKernels;
/// Sliding windows: im2col, pooling.
extern const char* const kWindowKernels;
/// Losses and their gradients.
extern const char* const kLossKernels;

[[nodiscard]] inline std::string opencl_kernel_source() {
  return std::string(kElementKernels) + kRowKernels + kWindowKernels + kLossKernels;
}

}  // namespace harmonics::inline in_runtime
