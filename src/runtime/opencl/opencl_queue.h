// One OpenCL device as a stage uses it: memory, kernels in order, matrix products (private to
// runtime).
//
// The types of OpenCL stay in the .cc files.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/tensor/tensor.h>

struct _cl_mem;

namespace harmonics::inline in_runtime {

/// A block of device memory; it goes back to its queue's pool when the last handle is gone.
class DeviceMemory;

/// A contiguous tensor on the device, with its batch axis. Copying a handle shares the memory.
struct DeviceTensor {
  Shape shape;
  DType dtype = DType::kFloat32;
  std::shared_ptr<DeviceMemory> memory;

  [[nodiscard]] bool defined() const { return memory != nullptr; }
  [[nodiscard]] std::int64_t size() const { return element_count(shape); }
  /// The same memory under another shape of equal size.
  [[nodiscard]] DeviceTensor reshaped(Shape other) const {
    return {std::move(other), dtype, memory};
  }
};

/// One argument of a kernel.
struct KernelArgument {
  enum class Kind { kMemory, kInt, kUint, kFloat };
  // Implicit, so that calls read as a plain list.
  KernelArgument(const DeviceTensor& tensor) : kind(Kind::kMemory), memory(tensor.memory.get()) {}
  KernelArgument(std::int64_t number);
  KernelArgument(int number) : kind(Kind::kInt), whole(number) {}
  KernelArgument(std::uint32_t bits) : kind(Kind::kUint), bits(bits) {}
  KernelArgument(float number) : kind(Kind::kFloat), real(number) {}
  KernelArgument(const DeviceMemory& block) : kind(Kind::kMemory), memory(&block) {}

  Kind kind;
  const DeviceMemory* memory = nullptr;
  std::int32_t whole = 0;
  std::uint32_t bits = 0;
  float real = 0;
};

/// C = A B + beta C, row by row; each operand may be transposed and may begin inside its tensor.
struct MatrixProduct {
  struct Operand {
    const DeviceTensor& tensor;
    bool transposed = false;
    std::int64_t offset = 0;
  };
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t inner = 0;
  Operand a;
  Operand b;
  const DeviceTensor& c;
  std::int64_t c_offset = 0;
  float beta = 0;
};

/// Which kernels a queue runs: those of opencl_kernels.h, or the reproducible ones
/// (exact_device/exact_sources.h).
enum class OpenClKernels { kOrdinary, kExact };

/// An in-order queue on one device with a pool of memory of its own. One thread at a time; several
/// queues on one device may be used from several threads. What the device refuses is an Error that
/// names the operation last given to `at`.
class OpenClQueue {
 public:
  /// `device` is a number of list_opencl_devices(). The process takes at most `memory_limit_bytes`
  /// of the device, where that is not 0.
  OpenClQueue(std::size_t device, std::uint64_t memory_limit_bytes,
              OpenClKernels kernels = OpenClKernels::kOrdinary);
  ~OpenClQueue();
  OpenClQueue(const OpenClQueue&) = delete;
  OpenClQueue& operator=(const OpenClQueue&) = delete;

  [[nodiscard]] const std::string& device_name() const;
  /// Whether kernels may compute in float64.
  [[nodiscard]] bool has_doubles() const;
  /// What is being computed, such as "layer 'fc1'".
  void at(std::string operation);

  /// Not cleared. Out of memory is an Error (kResourceExhausted) that names the operation, the size
  /// and what is free.
  [[nodiscard]] DeviceTensor empty(Shape shape, DType dtype = DType::kFloat32);
  [[nodiscard]] DeviceTensor zeros(Shape shape);
  void clear(const DeviceTensor& tensor);
  /// Copies to and from main memory; they return when the bytes have arrived.
  [[nodiscard]] DeviceTensor upload(const Tensor& tensor);
  void write(const DeviceTensor& to, const Tensor& from);
  [[nodiscard]] Tensor download(const DeviceTensor& tensor);

  /// Runs a kernel over `items` work items; their number is its last argument.
  void run(const char* kernel, std::int64_t items, std::initializer_list<KernelArgument> arguments);
  void run(const char* kernel, std::int64_t items, std::span<const KernelArgument> arguments);
  /// The same with one work-group per item.
  void run_groups(const char* kernel, std::int64_t groups,
                  std::initializer_list<KernelArgument> arguments);
  void multiply(const MatrixProduct& product);

 private:
  struct State;
  [[nodiscard]] _cl_mem* take(std::size_t bytes);
  void launch(const char* kernel, std::size_t global, std::int64_t items,
              std::span<const KernelArgument> arguments);

  std::unique_ptr<State> state_;
};

}  // namespace harmonics::inline in_runtime
