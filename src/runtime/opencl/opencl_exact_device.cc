// The reproducible kernels on an OpenCL device, through the queue that the OpenCL backend uses.
#include <utility>
#include <vector>

#include <harmonics/base/error.h>

#include "exact_device/exact_device.h"
#include "opencl_queue.h"

namespace harmonics::inline in_runtime {
namespace {

class ExactOpenClDevice final : public ExactDevice {
 public:
  ExactOpenClDevice(std::size_t number, std::uint64_t memory_limit_bytes)
      : number_(number), queue_(number, memory_limit_bytes, OpenClKernels::kExact) {}

  std::string name() const override { return format("opencl:{}", number_); }
  bool has_doubles() const override { return queue_.has_doubles(); }
  void at(std::string operation) override { queue_.at(std::move(operation)); }

  using ExactDevice::empty;
  ExactArray empty(const Shape& shape, DType dtype) override {
    return {shape, dtype, Tensor(), queue_.empty(shape, dtype).memory};
  }
  void write(const ExactArray& to, const Tensor& from) override { queue_.write(seen(to), from); }
  Tensor download(const ExactArray& array) override { return queue_.download(seen(array)); }

  void run(const char* kernel, std::int64_t items,
           std::initializer_list<DeviceArgument> arguments) override {
    std::vector<KernelArgument> all;
    for (const DeviceArgument& argument : arguments) all.push_back(converted(argument));
    queue_.run(kernel, items, std::span<const KernelArgument>(all));
  }

 private:
  static DeviceTensor seen(const ExactArray& array) {
    return {array.shape, array.dtype, std::static_pointer_cast<DeviceMemory>(array.there)};
  }
  static KernelArgument converted(const DeviceArgument& argument) {
    switch (argument.kind) {
      case DeviceArgument::Kind::kMemory: return *static_cast<DeviceMemory*>(argument.memory);
      case DeviceArgument::Kind::kInt: return argument.whole;
      case DeviceArgument::Kind::kUint: return argument.bits;
      case DeviceArgument::Kind::kFloat: break;
    }
    return argument.real;
  }

  std::size_t number_;
  OpenClQueue queue_;
};

}  // namespace

std::unique_ptr<ExactDevice> make_exact_opencl_device(std::size_t number,
                                                      std::uint64_t memory_limit_bytes) {
  return std::make_unique<ExactOpenClDevice>(number, memory_limit_bytes);
}

}  // namespace harmonics::inline in_runtime
