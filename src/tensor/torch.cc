#include <harmonics/tensor/torch.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <array>
#include <utility>

namespace harmonics::inline in_tensor {
namespace {

constexpr std::array<at::ScalarType, kDTypeCount> kScalarTypes = {
    at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong,
    at::kInt,   at::kChar,   at::kByte,     at::kBool};

DType dtype_of(at::ScalarType type) {
  for (std::size_t i = 0; i < kScalarTypes.size(); ++i) {
    if (kScalarTypes[i] == type) return static_cast<DType>(i);
  }
  fail(ErrorCode::kInvalidArgument, "torch dtype '{}' has no counterpart", c10::toString(type));
}

}  // namespace

at::Tensor to_torch(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  auto options = at::TensorOptions().dtype(kScalarTypes.at(static_cast<int>(tensor.dtype())));
  if (tensor.device().kind == DeviceKind::kCuda) {
    options = options.device(at::kCUDA, static_cast<c10::DeviceIndex>(tensor.device().index));
  }
  return at::from_blob(
      const_cast<std::byte*>(tensor.bytes().data()), tensor.shape(),
      [keep = tensor.buffer()](void*) {}, options);
}

Tensor from_torch(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (tensor.layout() != at::kStrided) {
    fail(ErrorCode::kInvalidArgument, "only dense torch tensors are supported; call to_dense()");
  }
  const at::Tensor whole = tensor.detach().contiguous();
  if (!whole.is_cpu() && !whole.is_cuda()) {
    fail(ErrorCode::kInvalidArgument, "tensors on torch device '{}' are not supported",
         whole.device().str());
  }
  Device device;
  if (whole.is_cuda()) device = {DeviceKind::kCuda, static_cast<std::int32_t>(whole.get_device())};
  TensorSpec spec{Shape(whole.sizes().begin(), whole.sizes().end()), dtype_of(whole.scalar_type())};
  auto buffer =
      std::make_shared<Buffer>(whole.data_ptr(), whole.nbytes(), device, [keep = whole] {});
  return {std::move(spec), std::move(buffer)};
}

}  // namespace harmonics::inline in_tensor
