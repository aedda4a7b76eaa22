// The kernels of the reproducible arithmetic for devices: one text for OpenCL C 1.2 and CUDA C++
// (private to runtime).
//
// The two languages differ in a prelude of macros and in nothing else. A kernel's last argument is
// the number of its work items, since launches are rounded up to groups of kExactGroup. Every sum
// has the order that docs/formats/reproducible.md states; there are no atomics. The compiler may
// not contract: OpenCL is told by a pragma, NVRTC by --fmad=false.
#pragma once

#include <string>

namespace harmonics::inline in_runtime {

/// Work items of a group: four rows of sixteen lanes, or a tile of a product.
inline constexpr int kExactGroup = 64;
/// Rows and columns of the tile of a product that one group computes.
inline constexpr int kExactTile = 32;

extern const char* const kExactOpenClPrelude;
extern const char* const kExactCudaPrelude;
/// exp, log, tanh, erf, sigmoid; sums over lanes.
extern const char* const kExactFunctionSource;
/// Element by element: sums, activations, copies, dropout, updates.
extern const char* const kExactElementSource;
/// Matrix products, and images as columns.
extern const char* const kExactProductSource;
/// Pools.
extern const char* const kExactPoolSource;
/// Norms.
extern const char* const kExactNormSource;
/// Softmax, sums of squares, losses.
extern const char* const kExactRowSource;

/// The whole program after one of the preludes.
[[nodiscard]] inline std::string exact_source(const char* prelude) {
  return std::string(prelude) + kExactFunctionSource + kExactElementSource + kExactProductSource +
         kExactPoolSource + kExactNormSource + kExactRowSource;
}

}  // namespace harmonics::inline in_runtime
