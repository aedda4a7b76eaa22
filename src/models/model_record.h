// What an import keeps of its source beside the weights, so that a model can go back (private to
// models).
#pragma once

#include <optional>

#include <harmonics/models/import_model.h>

namespace harmonics::inline in_models {

/// Key of the record in a safetensors file's metadata.
inline constexpr const char* kModelRecord = "harmonics_model";

/// How one of our tensors was made of one of theirs.
struct SourceTensor {
  std::string name;
  Shape stored;
  WeightLayout layout;
};

struct ModelRecord {
  std::string architecture;
  Json config;
  /// By our names.
  std::map<std::string, SourceTensor, std::less<>> tensors;
};

/// The name of one of our tensors in weights, which is "model.…" in a checkpoint; an Error where
/// they do not have it.
[[nodiscard]] std::string name_in_weights(const WeightSource& weights, const std::string& own);

[[nodiscard]] Json record_json(const ImportedModel& model);
[[nodiscard]] ModelRecord record_from(const Json& json);

}  // namespace harmonics::inline in_models
