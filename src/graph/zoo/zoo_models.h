// The families of the zoo, one file each (private to graph).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>

namespace harmonics::inline in_graph {

HarmonicGraph make_digits_mlp();
HarmonicGraph make_lenet();
HarmonicGraph make_lenet_digits();

struct ResnetOptions {
  std::string name;
  /// Residual blocks in each of the four stages.
  std::vector<std::int64_t> blocks;
  /// Blocks of three convolutions (1x1, 3x3, 1x1) with four times the width at the end, instead of
  /// two.
  bool bottleneck = false;
};
HarmonicGraph make_resnet(const ResnetOptions& options);

HarmonicGraph make_transformer_small();

struct VitOptions {
  std::string name;
  std::int64_t blocks = 12;
  std::int64_t width = 768;
  std::int64_t heads = 12;
};
HarmonicGraph make_vit(const VitOptions& options);

/// The end that all classifiers of the zoo share: labels, loss and the consumer of the logits.
HarmonicGraph finish_classifier(GraphBuilder& builder, const std::string& logits);

}  // namespace harmonics::inline in_graph
