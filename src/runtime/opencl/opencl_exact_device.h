// The reproducible kernels on an OpenCL device, through the queue that the OpenCL backend uses
// (private to runtime).
#pragma once

#include <string>

#include "exact_device/exact_device.h"
#include "opencl_queue.h"

namespace harmonics::inline in_runtime {

class ExactOpenClDevice final : public ExactDevice {
 public:
  ExactOpenClDevice(std::size_t number, std::uint64_t memory_limit_bytes)
      : number_(number), queue_(number, memory_limit_bytes, OpenClKernels::kExact) {}

  std::string name() const override;
  bool has_doubles() const override { return queue_.has_doubles(); }
  void at(std::string operation) override;

  using ExactDevice::empty;
  ExactArray empty(const Shape& shape, DType dtype) override;
  void write(const ExactArray& to, const Tensor& from) override;
  Tensor download(const ExactArray& array) override;
  void run(const char* kernel, std::int64_t items,
           std::initializer_list<DeviceArgument> arguments) override;

 private:
  std::size_t number_;
  OpenClQueue queue_;
};

}  // namespace harmonics::inline in_runtime
