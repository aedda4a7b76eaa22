// CUDA's driver and its run-time compiler, loaded when they are first needed (private to runtime).
//
// No header of CUDA is asked for: a build with any libtorch has this, and a program starts on a
// machine that has neither library.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace harmonics::inline in_runtime {

using CudaContext = void*;
using CudaModule = void*;
using CudaFunction = void*;
using CudaStream = void*;
using CudaAddress = unsigned long long;

inline constexpr int kCudaOutOfMemory = 2;

/// The functions of the driver that are used, by its own names. They return 0 where all is well.
struct CudaDriver {
  CudaDriver();

  int (*cuInit)(unsigned flags);
  int (*cuDeviceGetCount)(int* count);
  int (*cuDeviceGet)(int* device, int number);
  int (*cuDeviceGetAttribute)(int* value, int attribute, int device);
  int (*cuDevicePrimaryCtxRetain)(CudaContext* context, int device);
  int (*cuCtxPushCurrent)(CudaContext context);
  int (*cuCtxPopCurrent)(CudaContext* context);
  int (*cuMemAlloc)(CudaAddress* address, std::size_t bytes);
  int (*cuMemFree)(CudaAddress address);
  int (*cuMemGetInfo)(std::size_t* free_bytes, std::size_t* all_bytes);
  int (*cuMemcpyHtoDAsync)(CudaAddress to, const void* from, std::size_t bytes, CudaStream stream);
  int (*cuMemcpyDtoHAsync)(void* to, CudaAddress from, std::size_t bytes, CudaStream stream);
  int (*cuStreamCreate)(CudaStream* stream, unsigned flags);
  int (*cuStreamSynchronize)(CudaStream stream);
  int (*cuStreamDestroy)(CudaStream stream);
  int (*cuModuleLoadData)(CudaModule* module, const void* image);
  int (*cuModuleGetFunction)(CudaFunction* function, CudaModule module, const char* name);
  int (*cuLaunchKernel)(CudaFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CudaStream stream, void** arguments, void** extra);
  int (*cuGetErrorString)(int error, const char** text);

  [[nodiscard]] std::string text_of(int error) const;
  /// Anything but 0 is an Error (kInternal) with what was tried.
  void check(int result, const std::string& what) const;
};

/// Loaded once. No driver is an Error (kFailedPrecondition).
[[nodiscard]] const CudaDriver& cuda_driver();

/// How NVRTC compiles the kernels for a GPU of that architecture ("sm_90"): nothing is contracted,
/// divisions and square roots are rounded, subnormals are kept.
[[nodiscard]] std::vector<std::string> exact_cuda_options(const std::string& architecture);
/// The kernels of exact_sources.h as such a GPU loads them, made by NVRTC. No compiler, or one that
/// refuses, is an Error (kFailedPrecondition).
[[nodiscard]] std::string exact_cuda_binary(const std::string& architecture);
/// "12.9"; what binaries depend on.
[[nodiscard]] std::string cuda_compiler_version();

}  // namespace harmonics::inline in_runtime
