// The layers, activations and losses that ship with Harmonics (private to graph).
#pragma once

#include <vector>

#include <harmonics/graph/layer_type.h>

namespace harmonics::inline in_graph {

std::vector<LayerType> builtin_layer_types();
std::vector<ActivationType> builtin_activation_types();
std::vector<LossType> builtin_loss_types();

}  // namespace harmonics::inline in_graph
