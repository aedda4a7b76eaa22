// Tensors on their way to a GPU and back (private to runtime).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <optional>

namespace harmonics::inline in_runtime {

/// Copies go through page-locked memory, so that they run at the full speed of the bus.
class GpuCopies {
 public:
  /// For a stage on this device, which may be the CPU.
  explicit GpuCopies(at::Device device);

  /// The tensor on the device. From main memory it comes beside the stream that computes: what was
  /// launched before, such as the last step's backward pass, goes on meanwhile.
  [[nodiscard]] at::Tensor here(const at::Tensor& value) const;
  /// The tensor in main memory; waits for it.
  [[nodiscard]] static at::Tensor in_main_memory(const at::Tensor& value);

 private:
  at::Device device_;
  std::optional<c10::Stream> copies_;  // none on the CPU
};

}  // namespace harmonics::inline in_runtime
