// Conversion between Tensor and libtorch's tensor, without copying, in both directions.
//
// The only public header that mentions torch, by forward declaration alone: a file that calls these
// functions includes libtorch itself. Target harmonics::tensor_torch.
#pragma once

#include <harmonics/tensor/tensor.h>

namespace at {
class Tensor;
}

namespace harmonics::inline in_tensor {

/// A torch tensor over the same bytes. The buffer lives as long as either handle.
[[nodiscard]] at::Tensor to_torch(const Tensor& tensor);

/// A Tensor over the same bytes (made contiguous first if it is not), which live as long as either
/// handle. An unsupported dtype, layout or device is an Error.
[[nodiscard]] Tensor from_torch(const at::Tensor& tensor);

}  // namespace harmonics::inline in_tensor
