#include "opencl_exact_device.h"

#include <memory>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>

namespace harmonics::inline in_runtime {
namespace {

DeviceTensor seen(const ExactArray& array) {
  return {array.shape, array.dtype, std::static_pointer_cast<DeviceMemory>(array.there)};
}

KernelArgument converted(const DeviceArgument& argument) {
  switch (argument.kind) {
    case DeviceArgument::Kind::kMemory: return *static_cast<DeviceMemory*>(argument.memory);
    case DeviceArgument::Kind::kInt: return argument.whole;
    case DeviceArgument::Kind::kUint: return argument.bits;
    case DeviceArgument::Kind::kFloat: break;
  }
  return argument.real;
}

}  // namespace

std::string ExactOpenClDevice::name() const { return format("opencl:{}", number_); }

void ExactOpenClDevice::at(std::string operation) { queue_.at(std::move(operation)); }

ExactArray ExactOpenClDevice::empty(const Shape& shape, DType dtype) {
  return {shape, dtype, Tensor(), queue_.empty(shape, dtype).memory};
}

void ExactOpenClDevice::write(const ExactArray& to, const Tensor& from) {
  queue_.write(seen(to), from);
}

Tensor ExactOpenClDevice::download(const ExactArray& array) { return queue_.download(seen(array)); }

void ExactOpenClDevice::run(const char* kernel, std::int64_t items,
                            std::initializer_list<DeviceArgument> arguments) {
  std::vector<KernelArgument> all;
  for (const DeviceArgument& argument : arguments) all.push_back(converted(argument));
  queue_.run(kernel, items, std::span<const KernelArgument>(all));
}

}  // namespace harmonics::inline in_runtime
