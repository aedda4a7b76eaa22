// The libtorch implementations of the layers, activations and losses that ship (private to
// runtime).
#pragma once

#include <map>
#include <string>

#include <harmonics/runtime/torch_layer.h>

namespace harmonics::inline in_runtime {

using LayerKernels = std::map<std::string, TorchLayer, std::less<>>;

LayerKernels builtin_layers();
std::map<std::string, TorchActivation, std::less<>> builtin_activations();
std::map<std::string, TorchLoss, std::less<>> builtin_losses();
/// Those of builtin_activations that can write their result over their argument: the same bits.
std::map<std::string, TorchActivation, std::less<>> builtin_activations_in_place();

/// The form of an activation that writes over its argument; empty where there is none, or where
/// someone registered another activation under the name.
TorchActivation torch_activation_in_place(std::string_view name);

// The layers by theme, for builtin_layers. A kernel reads lengths from the tensors that come and
// never from its LayerQuery: where a graph has named axes, batches of one stage differ in length.
LayerKernels window_kernels();
LayerKernels norm_kernels();
LayerKernels attention_kernels();
LayerKernels token_kernels();
LayerKernels shape_kernels();
LayerKernels element_kernels();
LayerKernels function_kernels();
LayerKernels sum_kernels();
LayerKernels move_kernels();
LayerKernels resize_kernels();
LayerKernels recurrent_kernels();

/// Inverted dropout: zeroes elements with probability p and scales the rest by 1/(1-p). Which ones
/// is a pure function of key, step and each row's sample number, on every device.
at::Tensor counter_dropout(const at::Tensor& input, double p, const LayerCall& call);
/// What it multiplies with, for tensors of these sizes, in main memory.
at::Tensor dropout_mask(at::IntArrayRef sizes, double p, const LayerCall& call);

/// False where someone has registered one of their own under the name. No activation is one of
/// ours.
bool is_builtin_layer(std::string_view type);
bool is_builtin_activation(std::string_view name);
bool is_builtin_loss(std::string_view name);

}  // namespace harmonics::inline in_runtime
