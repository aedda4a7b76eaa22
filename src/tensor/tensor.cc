#include <harmonics/tensor/tensor.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace harmonics::inline in_tensor {

Tensor::Tensor(TensorSpec spec, BufferPtr buffer, std::size_t offset)
    : spec_(std::move(spec)),
      size_(element_count(spec_.shape)),
      buffer_(std::move(buffer)),
      offset_(offset) {
  if (buffer_ == nullptr || offset_ > buffer_->size() || byte_size() > buffer_->size() - offset_) {
    fail(ErrorCode::kInvalidArgument, "a tensor of {} does not fit in a buffer of {} bytes at {}",
         spec_text(spec_), buffer_ ? buffer_->size() : 0, offset_);
  }
}

Tensor Tensor::empty(Shape shape, DType dtype) {
  const auto bytes = static_cast<std::size_t>(element_count(shape)) * dtype_size(dtype);
  return {TensorSpec{std::move(shape), dtype}, BufferPool::shared().take(bytes)};
}

Tensor Tensor::zeros(Shape shape, DType dtype) {
  Tensor out = empty(std::move(shape), dtype);
  std::ranges::fill(out.mutable_bytes(), std::byte{0});
  return out;
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t end) const {
  if (spec_.shape.empty() || begin < 0 || begin > end || end > spec_.shape[0]) {
    fail(ErrorCode::kOutOfRange, "rows {} to {} are outside a tensor of shape {}", begin, end,
         shape_text(spec_.shape));
  }
  TensorSpec spec = spec_;
  spec.shape[0] = end - begin;
  const std::size_t row = spec_.shape[0] == 0 ? 0 : byte_size() / spec_.shape[0];
  return {std::move(spec), buffer_, offset_ + row * static_cast<std::size_t>(begin)};
}

Tensor Tensor::reshaped(Shape shape) const {
  if (element_count(shape) != size_) {
    fail(ErrorCode::kInvalidArgument, "cannot view shape {} as {}: the sizes differ",
         shape_text(spec_.shape), shape_text(shape));
  }
  return {TensorSpec{std::move(shape), spec_.dtype}, buffer_, offset_};
}

void Tensor::check_access(DType wanted) const {
  if (wanted != spec_.dtype) {
    fail(ErrorCode::kInvalidArgument, "a tensor of {} was read as {}", dtype_name(spec_.dtype),
         dtype_name(wanted));
  }
  if (device().kind != DeviceKind::kCpu) {
    fail(ErrorCode::kFailedPrecondition, "the elements of a tensor on a GPU were read on the CPU");
  }
}

Tensor concat_rows(std::span<const Tensor> parts) {
  if (parts.empty()) fail(ErrorCode::kInvalidArgument, "no tensors to join");
  Shape shape = parts[0].shape();
  if (shape.empty()) fail(ErrorCode::kInvalidArgument, "scalars have no rows to join");
  shape[0] = 0;
  for (const Tensor& part : parts) {
    if (part.dtype() != parts[0].dtype() || part.shape().size() != shape.size() ||
        !std::equal(shape.begin() + 1, shape.end(), part.shape().begin() + 1)) {
      fail(ErrorCode::kInvalidArgument, "cannot join {} and {} along the first axis",
           spec_text(parts[0].spec()), spec_text(part.spec()));
    }
    if (part.device().kind != DeviceKind::kCpu) {
      fail(ErrorCode::kFailedPrecondition, "tensors on a GPU cannot be joined on the CPU");
    }
    shape[0] += part.shape()[0];
  }
  Tensor out = Tensor::empty(std::move(shape), parts[0].dtype());
  std::byte* to = out.mutable_bytes().data();
  for (const Tensor& part : parts) {
    std::memcpy(to, part.bytes().data(), part.byte_size());
    to += part.byte_size();
  }
  return out;
}

}  // namespace harmonics::inline in_tensor
