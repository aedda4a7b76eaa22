// Model: a graph as Python holds it, with what came along from its file.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <harmonics/graph/harp.h>
#include <harmonics/models/weight_source.h>

namespace harmonics::python {

/// A value; copies share the weights.
struct Model {
  /// The graph, and the sections of its file.
  HarpDocument document;
  std::filesystem::path file = {};
  /// Start values by the graph's names; none: they are drawn.
  WeightSource weights = {};
  std::map<std::string, WeightOrigin> origins = {};
  /// Of an imported model.
  std::string architecture = {};
  std::vector<std::string> left_out = {};

  [[nodiscard]] const HarmonicGraph& graph() const { return document.graph; }
};

}  // namespace harmonics::python
