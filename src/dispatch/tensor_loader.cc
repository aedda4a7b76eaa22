#include <harmonics/dispatch/tensor_loader.h>

#include <harmonics/base/error.h>

#include "tensor_axis.h"

namespace harmonics::inline in_dispatch {
namespace {

void check_cut(const std::string& what, const Tensor& tensor, std::size_t axis) {
  if (axis > 0 && tensor.device().kind != DeviceKind::kCpu) {
    fail(ErrorCode::kInvalidArgument,
         "{} lies on a GPU and cannot be cut along axis {}: move it to the CPU, or put the batch "
         "first",
         what, axis);
  }
}

std::size_t checked_axis(const Tensor& tensor, int axis) {
  const std::optional<std::size_t> there = axis_of(tensor.shape(), axis);
  if (!there || tensor.shape()[*there] == 0) {
    fail(ErrorCode::kInvalidArgument, "a tensor of {} cannot be cut along axis {}",
         spec_text(tensor.spec()), axis);
  }
  check_cut("a tensor", tensor, *there);
  return *there;
}

}  // namespace

TensorLoader::TensorLoader(Tensor tensor, int axis)
    : tensor_(std::move(tensor)),
      axis_(checked_axis(tensor_, axis)),
      size_(static_cast<std::size_t>(tensor_.shape()[axis_])) {}

Tensor TensorLoader::rows(RowRange range) const { return slice_along(tensor_, axis_, range); }

TensorMapLoader::TensorMapLoader(TensorMap tensors, int axis)
    : tensors_(std::move(tensors)), axis_(axis) {
  if (tensors_.empty()) fail(ErrorCode::kInvalidArgument, "there are no tensors to load");
  const std::string* longest = nullptr;
  for (const auto& [name, tensor] : tensors_) {
    const std::size_t length = length_along(tensor.shape(), axis);
    if (length == 0) fail(ErrorCode::kInvalidArgument, "tensor '{}' has no rows", name);
    if (length == 1) continue;
    if (longest != nullptr && length != size_) {
      fail(ErrorCode::kInvalidArgument,
           "tensor '{}' has {} rows along axis {}, '{}' has {}: the same number, or 1, is needed",
           name, length, axis, *longest, size_);
    }
    check_cut("tensor '" + name + "'", tensor, *axis_of(tensor.shape(), axis));
    longest = &name;
    size_ = length;
  }
}

std::vector<std::string> TensorMapLoader::unbatched() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) {
    if (length_along(tensor.shape(), axis_) == 1) names.push_back(name);
  }
  return names;
}

TensorMap TensorMapLoader::rows(RowRange range) const {
  TensorMap out;
  for (const auto& [name, tensor] : tensors_) {
    const bool whole = length_along(tensor.shape(), axis_) == 1;
    out.emplace(name, whole ? tensor : slice_along(tensor, *axis_of(tensor.shape(), axis_), range));
  }
  return out;
}

}  // namespace harmonics::inline in_dispatch
