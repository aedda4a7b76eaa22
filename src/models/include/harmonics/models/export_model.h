// Imported models as the folders that they came from, with the weights that they have now.
#pragma once

#include <cstdint>
#include <filesystem>

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

}  // namespace harmonics::inline in_models
