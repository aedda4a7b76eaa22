// The network of several benchmarks: 784 inputs, seven hidden layers of 1,024, ten classes.
#pragma once

#include <string>

#include <harmonics/graph/graph.h>

namespace bench {

/// Its layers; the scores are "logits".
inline harmonics::GraphBuilder mlp_layers() {
  harmonics::GraphBuilder builder("mlp");
  builder.producer("image", harmonics::Shape{784});
  std::string from = "image";
  for (int i = 1; i <= 7; ++i) {
    const std::string name = "hidden" + std::to_string(i);
    builder.layer(name, "linear", {{"out", std::int64_t{1024}}}, {from}, "relu");
    from = name;
  }
  builder.layer("logits", "linear", {{"out", std::int64_t{10}}}, {from});
  return builder;
}

/// The same with labels to learn.
inline harmonics::HarmonicGraph mlp_graph() {
  return mlp_layers()
      .producer("label", harmonics::Shape{}, harmonics::DType::kInt64)
      .tap("cross_entropy", "logits", "label")
      .build();
}

}  // namespace bench
