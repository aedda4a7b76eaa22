// How layers, activations and losses are computed with libtorch, and how to add one's own.
//
// The one public header that includes libtorch: only code that writes a layer needs it. A new layer
// is a LayerType (harmonics/graph/layer_type.h) plus a TorchLayer registered here under the same
// name.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/graph/layer_type.h>

namespace harmonics::inline in_runtime {

/// Numbers that a recorded pass takes from chance: whoever launches it draws them anew.
struct ChanceDraw {
  at::Tensor mask;  // on the device; inverted dropout by probability p
  double p = 0;
  std::uint64_t key = 0;
};

/// What one call of a layer sees. Tensors carry a leading batch axis.
struct LayerCall {
  std::span<const at::Tensor> inputs;
  /// The layer's parameters, in the order of its LayerShape.
  std::span<const at::Tensor> parameters;
  /// Some of them in `compute`, at the same places, for matrix products: what these learn, the
  /// parameters learn. Undefined ones, and none at all, where the parameter itself has to be cast.
  std::span<const at::Tensor> shorts = {};
  bool training = false;
  /// In inference on the CPU: what the layer has worked out of its parameters, empty at first and
  /// again after they changed. The layer fills and reads it as it likes. Null elsewhere.
  std::vector<at::Tensor>* kept = nullptr;
  /// Dtype for matrix products; the graph's own unless the precision policy is mixed.
  at::ScalarType compute = at::kFloat;
  /// Chance is a function of (key, step, first_sample + row): see base/random.h. The key comes from
  /// the run's seed and the layer's name.
  std::uint64_t key = 0;
  std::uint64_t step = 0;
  std::int64_t first_sample = 0;
  /// Not null while the pass is recorded: what depends on step and first_sample goes here. A layer
  /// that others have registered is never recorded.
  std::vector<ChanceDraw>* draws = nullptr;
};

/// Computes the output of a layer, without its activation. Called from one thread at a time per
/// runtime; must not change its inputs or, outside of running statistics, its parameters.
using LayerForward = std::function<at::Tensor(const LayerCall&)>;
/// Makes the forward function of one layer from its (complete) attributes and input shapes.
using TorchLayer = std::function<LayerForward(const LayerQuery&)>;
using TorchActivation =
    std::function<at::Tensor(const at::Tensor& value, std::span<const at::Tensor> parameters)>;

/// The loss of each sample, as a tensor of shape {batch}: a mean over the sample's own axes.
using TorchLoss = std::function<at::Tensor(const at::Tensor& prediction, const at::Tensor& target)>;

// Process-wide and thread safe; an existing name is replaced.
void register_torch_layer(std::string type, TorchLayer layer);
void register_torch_activation(std::string name, TorchActivation activation);
void register_torch_loss(std::string name, TorchLoss loss);

/// Look-ups; a name that no one registered is an Error that says how to register it.
[[nodiscard]] LayerForward make_layer_forward(const LayerQuery& query);
[[nodiscard]] TorchActivation torch_activation(std::string_view name);
[[nodiscard]] TorchLoss torch_loss(std::string_view name);

}  // namespace harmonics::inline in_runtime
