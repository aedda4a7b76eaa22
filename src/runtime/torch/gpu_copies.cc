#include "torch/gpu_copies.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace harmonics::inline in_runtime {

GpuCopies::GpuCopies(at::Device device) : device_(device) {
  if (device.is_cpu()) return;
  copies_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

at::Tensor GpuCopies::here(const at::Tensor& value) const {
  if (value.device() == device_) return value;
  if (!copies_) return in_main_memory(value);
  if (!value.is_cpu()) return value.to(device_, /*non_blocking=*/true);
  const c10::Stream computes = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  at::Tensor arriving;
  {
    const c10::StreamGuard beside(*copies_);
    arriving = (value.is_pinned() ? value : value.pin_memory()).to(device_, /*non_blocking=*/true);
  }
  c10::Event arrived(device_.type());
  arrived.record(*copies_);
  arrived.block(computes);
  arriving.record_stream(computes);  // its memory is not given away before that has read it
  return arriving;
}

at::Tensor GpuCopies::in_main_memory(const at::Tensor& value) {
  if (value.is_cpu()) return value;
  at::Tensor staging =
      at::empty(value.sizes(), at::TensorOptions().dtype(value.scalar_type()).pinned_memory(true));
  return staging.copy_(value);
}

}  // namespace harmonics::inline in_runtime
