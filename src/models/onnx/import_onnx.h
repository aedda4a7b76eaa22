// ONNX files as graphs of ours (private to models; import_model.h is the way in).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/models/mapped_file.h>
#include <harmonics/tensor/tensor.h>

#include "onnx_importer.h"

namespace harmonics::inline in_models {

struct OnnxResult {
  HarmonicGraph graph;
  /// Every parameter of the graph by full name, in memory of its own.
  std::map<std::string, Tensor> weights;
  /// Those that are initializers of the file.
  std::map<std::string, WeightOrigin> origins;
};

/// Reads a file and those beside it that hold its tensors. What is damaged, not covered or not said
/// is an Error that names file and node.
[[nodiscard]] OnnxResult import_onnx(const MappedFile& file, const OnnxChoices& choices);

}  // namespace harmonics::inline in_models
