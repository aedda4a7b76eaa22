// OpenCL's own types: contexts, programs and error codes (private to the opencl_*.cc files).
#pragma once

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include <harmonics/base/error.h>

#include "opencl_queue.h"

namespace harmonics::inline in_runtime {

/// "CL_OUT_OF_RESOURCES" and the like, or the number.
[[nodiscard]] std::string opencl_error_name(cl_int code);

/// Fails with what was tried and OpenCL's answer, unless that is CL_SUCCESS.
inline void check_opencl(cl_int code, std::string_view what) {
  if (code == CL_SUCCESS) return;
  fail(ErrorCode::kInternal, "OpenCL: {}: {}", what, opencl_error_name(code));
}

/// One device with its context and the program of all kernels of a kind, made once per process and
/// shared by all queues. Thread safe.
struct OpenClContext {
  OpenClContext(cl_device_id device, OpenClKernels kernels);
  ~OpenClContext();
  OpenClContext(const OpenClContext&) = delete;
  OpenClContext& operator=(const OpenClContext&) = delete;

  /// The context of a device of list_opencl_devices(); another number is an Error.
  [[nodiscard]] static std::shared_ptr<OpenClContext> of_device(std::size_t number,
                                                                OpenClKernels kernels);

  cl_device_id device = nullptr;
  cl_context context = nullptr;
  cl_program program = nullptr;
  std::string name;
  std::size_t group_size = 64;
  bool has_doubles = false;
  std::uint64_t memory_bytes = 0;
  std::uint64_t max_allocation_bytes = 0;
  /// Bytes that all queues of this process hold.
  std::atomic<std::uint64_t> taken_bytes = 0;
};

}  // namespace harmonics::inline in_runtime
