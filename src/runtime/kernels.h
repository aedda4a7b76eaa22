// The libtorch implementations of the layers, activations and losses that ship (private to
// runtime).
#pragma once

#include <map>
#include <string>

#include <harmonics/runtime/torch_layer.h>

namespace harmonics::inline in_runtime {

std::map<std::string, TorchLayer, std::less<>> builtin_layers();
std::map<std::string, TorchActivation, std::less<>> builtin_activations();
std::map<std::string, TorchLoss, std::less<>> builtin_losses();

/// Inverted dropout: zeroes elements with probability p and scales the rest by 1/(1-p). Which ones
/// is a pure function of key, step and each row's sample number, on every device.
at::Tensor counter_dropout(const at::Tensor& input, double p, const LayerCall& call);

}  // namespace harmonics::inline in_runtime
