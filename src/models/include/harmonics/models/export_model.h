// Models as others have them: imported ones as the folders that they came from, and any graph of
// layers that ONNX can spell as an ONNX file.
#pragma once

#include <cstdint>
#include <filesystem>

#include <harmonics/graph/graph.h>
#include <harmonics/models/weight_source.h>

namespace harmonics::inline in_models {

struct ExportedModel {
  std::filesystem::path weights;
  std::filesystem::path config;
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
};

/// Writes config.json and model.safetensors into `folder` (made where it is missing), under the
/// names that the source had. `imported` are the weights of the import, which keep those names;
/// `weights` are the values, by our names or as "model.…" of a checkpoint. Weights that no import
/// wrote, and a missing tensor, are Errors. Both files appear whole.
ExportedModel export_hf(const WeightSource& imported, const WeightSource& weights,
                        const std::filesystem::path& folder);

struct ExportedOnnx {
  std::filesystem::path file;
  /// Where the tensors lie that are not in the file; empty where all are.
  std::filesystem::path data;
  std::size_t nodes = 0;
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
};

/// A protobuf file ends at 2 GiB; what is larger keeps its tensors in FILE.data.
inline constexpr std::uint64_t kMaxOnnxTensorBytes = std::uint64_t{2'000'000'000};

/// Writes what the consumers of `graph` need as an ONNX file of opset 17, the batch and named axes
/// open, values and tensors under the graph's names. `weights` are by our names or as "model.…" of
/// a checkpoint. A layer, activation or attribute that ONNX cannot spell is an Error
/// (kUnimplemented) that names the layer; so is a missing tensor. Files appear whole, the data
/// first. Holds one tensor at a time; above `inside` bytes tensors lie beside the file.
ExportedOnnx export_onnx(const HarmonicGraph& graph, const WeightSource& weights,
                         const std::filesystem::path& file,
                         std::uint64_t inside = kMaxOnnxTensorBytes);

}  // namespace harmonics::inline in_models
