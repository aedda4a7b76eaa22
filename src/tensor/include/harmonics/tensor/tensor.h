// Tensor: a small value handle over shared, contiguous memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

#include <harmonics/base/bytes.h>
#include <harmonics/base/error.h>
#include <harmonics/tensor/buffer.h>
#include <harmonics/tensor/dtype.h>

namespace harmonics::inline in_tensor {

/// Shape, dtype and a contiguous (row-major) window into a buffer. Copying a handle shares the
/// bytes. A default-made tensor is undefined: `defined()` is false and it has no elements.
///
/// Threads: a handle is like an int; the bytes are never changed once a tensor has been handed on.
class Tensor {
 public:
  Tensor() = default;
  /// A window that starts `offset` bytes into `buffer`; too small a buffer is an Error.
  Tensor(TensorSpec spec, BufferPtr buffer, std::size_t offset = 0);

  /// Uninitialised CPU memory from the shared pool.
  [[nodiscard]] static Tensor empty(Shape shape, DType dtype = DType::kFloat32);
  [[nodiscard]] static Tensor zeros(Shape shape, DType dtype = DType::kFloat32);
  /// Copies `values`; their number must equal the shape's.
  template <typename T>
  [[nodiscard]] static Tensor of(Shape shape, std::span<const T> values) {
    Tensor out = empty(std::move(shape), DTypeOf<T>::value);
    const std::span<T> to = out.mutable_values<T>();
    if (to.size() != values.size()) {
      fail(ErrorCode::kInvalidArgument, "shape {} takes {} values, {} were given",
           shape_text(out.shape()), to.size(), values.size());
    }
    std::copy(values.begin(), values.end(), to.begin());
    return out;
  }
  template <typename T>
  [[nodiscard]] static Tensor of(Shape shape, std::initializer_list<T> values) {
    return of<T>(std::move(shape), std::span<const T>(values.begin(), values.size()));
  }

  [[nodiscard]] bool defined() const { return buffer_ != nullptr; }
  [[nodiscard]] const Shape& shape() const { return spec_.shape; }
  [[nodiscard]] DType dtype() const { return spec_.dtype; }
  [[nodiscard]] const TensorSpec& spec() const { return spec_; }
  [[nodiscard]] Device device() const { return buffer_ ? buffer_->device() : Device{}; }
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::size_t byte_size() const {
    return static_cast<std::size_t>(size_) * dtype_size(spec_.dtype);
  }

  /// The raw bytes; for a CUDA tensor an address on the device.
  [[nodiscard]] ByteSpan bytes() const { return {data(), byte_size()}; }
  [[nodiscard]] std::span<std::byte> mutable_bytes() { return {data(), byte_size()}; }

  /// The elements of a CPU tensor; another dtype or device is an Error.
  template <typename T>
  [[nodiscard]] std::span<const T> values() const {
    check_access(DTypeOf<T>::value);
    return {reinterpret_cast<const T*>(data()), static_cast<std::size_t>(size_)};
  }
  template <typename T>
  [[nodiscard]] std::span<T> mutable_values() {
    check_access(DTypeOf<T>::value);
    return {reinterpret_cast<T*>(data()), static_cast<std::size_t>(size_)};
  }

  /// Rows [begin, end) of the first axis, sharing memory.
  [[nodiscard]] Tensor slice(std::int64_t begin, std::int64_t end) const;
  /// The same bytes under another shape of equal size.
  [[nodiscard]] Tensor reshaped(Shape shape) const;

  [[nodiscard]] const BufferPtr& buffer() const { return buffer_; }
  [[nodiscard]] std::size_t offset() const { return offset_; }

 private:
  [[nodiscard]] std::byte* data() const { return buffer_ ? buffer_->data() + offset_ : nullptr; }
  void check_access(DType wanted) const;

  TensorSpec spec_;
  std::int64_t size_ = 0;
  BufferPtr buffer_;
  std::size_t offset_ = 0;
};

/// Joins CPU tensors of one dtype along the first axis; all other axes must agree, else an Error.
[[nodiscard]] Tensor concat_rows(std::span<const Tensor> parts);

}  // namespace harmonics::inline in_tensor
