// A device that runs the kernels of exact_sources.h (private to runtime).
//
// Two kinds: an OpenCL device (the room opencl, in programs that link it) and a GPU by CUDA's
// driver and NVRTC, which are loaded when the first one is asked for.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exact/exact_place.h"

namespace harmonics::inline in_runtime {

/// One argument of a kernel.
struct DeviceArgument {
  enum class Kind { kMemory, kInt, kUint, kFloat };
  // Implicit, so that calls read as a plain list.
  DeviceArgument(const ExactArray& array) : kind(Kind::kMemory), memory(array.there.get()) {}
  /// Beyond 32 bits is an Error (kUnimplemented).
  DeviceArgument(std::int64_t number);
  DeviceArgument(int number) : kind(Kind::kInt), whole(number) {}
  DeviceArgument(std::uint32_t number) : kind(Kind::kUint), bits(number) {}
  DeviceArgument(float number) : kind(Kind::kFloat), real(number) {}

  Kind kind;
  void* memory = nullptr;
  std::int32_t whole = 0;
  std::uint32_t bits = 0;
  float real = 0;
};

/// Runs kernels in the order in which they are given. One thread at a time; several may lie on one
/// device and be used from several threads. What the device refuses is an Error that names the
/// operation last given to `at`; so is a lack of memory (kResourceExhausted).
class ExactDevice {
 public:
  virtual ~ExactDevice() = default;

  /// "cuda:0", "opencl:0".
  [[nodiscard]] virtual std::string name() const = 0;
  /// Whether it has float64; without it, sums of squares are taken on the CPU.
  [[nodiscard]] virtual bool has_doubles() const = 0;
  virtual void at(std::string operation) = 0;

  /// Not cleared.
  [[nodiscard]] virtual ExactArray empty(const Shape& shape, DType dtype) = 0;
  /// These two return when the bytes have arrived.
  virtual void write(const ExactArray& to, const Tensor& from) = 0;
  [[nodiscard]] virtual Tensor download(const ExactArray& array) = 0;
  /// In groups of kExactGroup work items; the number of items is the kernel's last argument. None
  /// for no items.
  virtual void run(const char* kernel, std::int64_t items,
                   std::initializer_list<DeviceArgument> arguments) = 0;

  [[nodiscard]] ExactArray empty(const Shape& shape) { return empty(shape, DType::kFloat32); }
  [[nodiscard]] ExactArray zeros(const Shape& shape);
  [[nodiscard]] ExactArray numbers(const std::vector<std::int32_t>& numbers);
};

/// A GPU by its number. Where driver, compiler or GPU are missing, or are too old, an Error
/// (kFailedPrecondition) that says what is missing.
[[nodiscard]] std::unique_ptr<ExactDevice> make_exact_cuda_device(std::size_t number,
                                                                  std::uint64_t memory_limit_bytes);
/// A device of list_opencl_devices(). One that does not keep subnormals, fuse multiply and add or
/// round division and square root is an Error (kFailedPrecondition) that names what it lacks.
[[nodiscard]] std::unique_ptr<ExactDevice> make_exact_opencl_device(
    std::size_t number, std::uint64_t memory_limit_bytes);

/// Computes functions, a product and sums of rows on the device and on the CPU; another bit is an
/// Error (kFailedPrecondition): a driver may promise more than it keeps.
void check_bits_of(ExactDevice& device);

/// A place whose operations run on `device`, once its bits were compared: no other layers,
/// activations and losses than those of the CPU.
[[nodiscard]] std::unique_ptr<ExactPlace> make_exact_device_place(
    std::unique_ptr<ExactDevice> device);

}  // namespace harmonics::inline in_runtime
