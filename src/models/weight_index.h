// Texts that say in which files tensors lie (private to models).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/models/weight_source.h>

namespace harmonics::inline in_models {

/// `model.safetensors.index.json`: tensor to file beside it. A text that is no index, a file name
/// with a folder in it, or too many of either is an Error.
[[nodiscard]] std::map<std::string, std::string> parse_weight_index(std::string_view text,
                                                                    std::string_view origin);

/// `NAME.weights.json`: our tensors with where and how they are stored.
struct WeightMap {
  /// As written: beside the map, or absolute.
  std::vector<std::string> files;
  WeightEntries entries;
  /// What the import knew of the model, for going back; null without.
  Json model;
};
[[nodiscard]] WeightMap parse_weight_map(std::string_view text, std::string_view origin);
[[nodiscard]] std::string weight_map_text(const WeightMap& map);

/// {"transposed": true, "first_row": 64, …}: only what differs from the usual.
void add_layout(Json& json, const WeightLayout& layout);
[[nodiscard]] WeightLayout layout_from(const Json& json);
[[nodiscard]] Json shape_json(const Shape& shape);
/// At most kMaxWeightAxes numbers of at least 0.
[[nodiscard]] Shape shape_from(const Json& json);

}  // namespace harmonics::inline in_models
