// The layers, activations and losses that ship with Harmonics (private to graph).
#pragma once

#include <vector>

#include <harmonics/graph/layer_type.h>

namespace harmonics::inline in_graph {

std::vector<LayerType> builtin_layer_types();
std::vector<ActivationType> builtin_activation_types();
std::vector<LossType> builtin_loss_types();

// The layers by theme, for builtin_layer_types.
std::vector<LayerType> window_layer_types();
std::vector<LayerType> norm_layer_types();
std::vector<LayerType> attention_layer_types();
std::vector<LayerType> token_layer_types();
std::vector<LayerType> shape_layer_types();
std::vector<LayerType> element_layer_types();
std::vector<LayerType> function_layer_types();
std::vector<LayerType> sum_layer_types();
std::vector<LayerType> move_layer_types();
std::vector<LayerType> recurrent_layer_types();

}  // namespace harmonics::inline in_graph
