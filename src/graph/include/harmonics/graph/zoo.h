// Well-known networks, ready to train.
//
// Every graph has an input producer, a target producer of class ids (int64), a cross_entropy tap
// and the consumer `prediction`. Layers carry the names of the usual PyTorch definitions:
// torchvision's for the ResNets, whose published weights fit by name as they are, and timm's for
// the vision transformers, whose published weights fit but for two: `cls_token` {1, 1, width} and
// `pos_embed` {1, 197, width} are `cls_token.weight` {width} and `pos_embed.weight` {197, width}
// here, to be renamed and reshaped first.
//
// | name              | input               | target       | parameters  |
// |-------------------|---------------------|--------------|-------------|
// | digits-mlp        | image {64}          | label {1}    | 17,226      |
// | lenet             | image {1, 28, 28}   | label {1}    | 61,706      |
// | lenet-digits      | image {1, 8, 8}     | label {1}    | 151,498     |
// | resnet18          | image {3, 224, 224} | label {1}    | 11,689,512  |
// | resnet50          | image {3, 224, 224} | label {1}    | 25,557,032  |
// | transformer-small | tokens {32} int64   | targets {32} | 466,432     |
// | vit-base          | image {3, 224, 224} | label {1}    | 86,567,656  |
// | vit-large         | image {3, 224, 224} | label {1}    | 304,326,632 |
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <harmonics/graph/graph.h>

namespace harmonics::inline in_graph {

/// The network of that name, resolved; an unknown name is an Error that lists the names. The
/// graph's own name has underscores for dashes. Residual blocks are groups; a block of a vision
/// transformer (google/vit-{base,large}-patch16-224) is four: norm + attention; projection +
/// residual + second norm; MLP expand; MLP contract + residual. The ends of the network lie in the
/// nearest group.
[[nodiscard]] HarmonicGraph zoo_graph(std::string_view name);

/// All names, in the order of the table.
[[nodiscard]] std::vector<std::string> zoo_names();

}  // namespace harmonics::inline in_graph
