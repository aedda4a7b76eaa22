// Layers, activations and losses in the reproducible arithmetic, with gradients by hand (private to
// runtime).
//
// One class per kind of operation. They hold attributes and no tensors: what a backward pass needs
// from its forward pass lies in an ExactKept. Every sum has the order that
// docs/formats/reproducible.md states; threads split independent outputs only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <harmonics/graph/layer_type.h>
#include <harmonics/tensor/tensor.h>

#include "exact_kernels.h"

namespace harmonics::inline in_runtime {

/// What one call of an operation sees. Tensors carry a leading batch axis and lie in main memory.
struct ExactCall {
  const ExactKernels& kernels;
  std::span<const Tensor> inputs;
  /// The operation's parameters and, in a backward pass, their gradients, to which it adds.
  std::span<const Tensor> parameters;
  std::span<const Tensor> gradients;
  /// Which inputs want a gradient; empty in a forward pass.
  const std::vector<bool>& wanted;
  bool training = false;
  /// For chance: see LayerCall.
  std::uint64_t key = 0;
  std::uint64_t step = 0;
  std::int64_t first_sample = 0;

  [[nodiscard]] std::int64_t rows() const { return inputs[0].shape()[0]; }
  [[nodiscard]] Tensor like_input() const { return Tensor::empty(inputs[0].shape()); }
};

/// What a forward pass leaves for its backward pass.
struct ExactKept {
  std::vector<Tensor> tensors;
};

class ExactOperation {
 public:
  virtual ~ExactOperation() = default;
  [[nodiscard]] virtual Tensor forward(const ExactCall& call, ExactKept& kept) const = 0;
  /// The gradients of the inputs; undefined for those that want none.
  [[nodiscard]] virtual std::vector<Tensor> backward(const ExactCall& call, const ExactKept& kept,
                                                     const Tensor& gradient) const = 0;
};
using ExactOperationPtr = std::unique_ptr<ExactOperation>;

/// What a loss says of a batch: one number per sample, and how many predictions were right.
struct ExactLosses {
  std::vector<float> samples;
  std::int64_t judged = 0;
  std::int64_t correct = 0;
};

class ExactLoss {
 public:
  virtual ~ExactLoss() = default;
  [[nodiscard]] virtual ExactLosses forward(const ExactKernels& kernels, const Tensor& prediction,
                                            const Tensor& target) const = 0;
  /// The gradient of `scale` times the sum over the samples.
  [[nodiscard]] virtual Tensor backward(const ExactKernels& kernels, const Tensor& prediction,
                                        const Tensor& target, float scale) const = 0;
};
using ExactLossPtr = std::unique_ptr<ExactLoss>;

// Null where there is no such operation, or not in this form.
[[nodiscard]] ExactOperationPtr make_exact_layer(const LayerQuery& query, const TensorSpec& output);
[[nodiscard]] ExactOperationPtr make_exact_activation(std::string_view name);
[[nodiscard]] ExactLossPtr make_exact_loss(std::string_view name);

/// Of those that look at each number alone; nothing for others.
[[nodiscard]] std::optional<ExactActivation> exact_activation_of(std::string_view name);

// By family, for make_exact_layer.
[[nodiscard]] ExactOperationPtr make_exact_token_layer(const LayerQuery& query);
[[nodiscard]] ExactOperationPtr make_exact_window(const LayerQuery& query,
                                                  const TensorSpec& output);
[[nodiscard]] ExactOperationPtr make_exact_norm(const LayerQuery& query);
[[nodiscard]] ExactOperationPtr make_exact_attention(const LayerQuery& query);

/// The layers of which at least one form is known, in alphabetical order, for errors.
[[nodiscard]] std::vector<std::string> exact_layer_names();

/// The numbers of a float32 tensor, to be read, and to be written by its maker.
[[nodiscard]] inline const float* numbers_of(const Tensor& tensor) {
  return tensor.values<float>().data();
}
[[nodiscard]] inline float* own_numbers(const Tensor& tensor) {
  Tensor handle = tensor;  // of the same memory
  return handle.mutable_values<float>().data();
}

/// The product of the extents from `axis` on.
[[nodiscard]] inline std::int64_t extent_from(const Shape& shape, std::size_t axis) {
  std::int64_t product = 1;
  for (std::size_t i = axis; i < shape.size(); ++i) product *= shape[i];
  return product;
}

}  // namespace harmonics::inline in_runtime
