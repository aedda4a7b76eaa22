// Batches made of tensors: one tensor, or several by name.
#pragma once

#include <functional>
#include <map>
#include <string>

#include <harmonics/dispatch/generator.h>
#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_dispatch {

/// Tensors by name: the inputs or outputs of a model.
using TensorMap = std::map<std::string, Tensor, std::less<>>;

/// Cuts one tensor along an axis (from the end where negative). Along the first axis a sub-batch
/// shares the tensor's memory, along others it is a copy. A scalar, an axis that is not there, an
/// empty axis, or another axis than the first of a tensor that lies on a GPU is an Error
/// (kInvalidArgument).
class TensorLoader final : public WorkGenerator<Tensor> {
 public:
  explicit TensorLoader(Tensor tensor, int axis = 0);
  [[nodiscard]] std::size_t size() const override { return size_; }
  [[nodiscard]] Tensor rows(RowRange range) const override;

 private:
  Tensor tensor_;
  std::size_t axis_;
  std::size_t size_;
};

/// Cuts several tensors together along one axis. Their lengths along it are the batch's, or 1:
/// those, and tensors with too few axes to have this one, are unbatched and go whole into every
/// sub-batch. Other lengths, or nothing batched among several rows, are an Error that names the
/// tensors.
class TensorMapLoader final : public WorkGenerator<TensorMap> {
 public:
  explicit TensorMapLoader(TensorMap tensors, int axis = 0);
  [[nodiscard]] std::size_t size() const override { return size_; }
  [[nodiscard]] TensorMap rows(RowRange range) const override;
  [[nodiscard]] std::vector<std::string> unbatched() const override;

 private:
  TensorMap tensors_;
  int axis_;
  std::size_t size_ = 1;
};

}  // namespace harmonics::inline in_dispatch
