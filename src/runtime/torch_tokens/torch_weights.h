// The weights of a stage where it computes (private to runtime).
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "tokens/token_pass.h"

namespace harmonics::inline in_runtime {

/// A matrix of a layer and the bias that goes with it, by their names in the layer.
struct WeightPart {
  const TokenLayerRequest& request;
  std::string weight;
  std::string bias = {};
};

/// Copies each tensor of a source once, however many layers use it.
class TorchWeights {
 public:
  TorchWeights(at::Device device, at::ScalarType numbers) : device_(device), numbers_(numbers) {}

  /// Matrices in the numbers of the stage, one below the other, unpacked.
  [[nodiscard]] at::Tensor matrix(const std::vector<WeightPart>& parts);
  /// Their biases in float32, zeros for a part that has none; undefined where no part has one.
  [[nodiscard]] at::Tensor bias(const std::vector<WeightPart>& parts);
  /// A parameter of a layer in float32; undefined where it has none of that name.
  [[nodiscard]] at::Tensor vector(const TokenLayerRequest& request, const std::string& name);
  [[nodiscard]] at::Tensor on_device(const std::vector<float>& values, at::IntArrayRef sizes);
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  at::Device device_;
  at::ScalarType numbers_;
  std::uint64_t bytes_ = 0;
  std::map<std::string, at::Tensor, std::less<>> made_;  // by the names of their parameters
};

}  // namespace harmonics::inline in_runtime
