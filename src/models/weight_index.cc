#include "weight_index.h"

#include <algorithm>
#include <array>

#include <harmonics/base/error.h>

namespace harmonics::inline in_models {
namespace {

constexpr std::string_view kMapFormat = "harmonics.weights/1";
constexpr std::array kPackings = {Packing::kPlain, Packing::kQ8_0, Packing::kQ4_0, Packing::kQ4_1,
                                  Packing::kQ6_K};
constexpr std::string_view kTransposedKind = "transposed";

void check_count(std::size_t count, std::size_t limit, std::string_view what,
                 std::string_view origin) {
  if (count > limit) {
    fail(ErrorCode::kResourceExhausted, "'{}' names {} {}, at most {}", origin, count, what, limit);
  }
}

std::string kind_text(const WeightEntry& entry) {
  return std::string(entry.layout.transposed ? kTransposedKind : packing_name(entry.packing));
}

std::int64_t whole_or(const Json& json, std::string_view key, std::int64_t fallback) {
  const Json* value = json.find(key);
  return value == nullptr ? fallback : value->as_integer();
}

WeightEntry entry_from(const std::string& name, const Json& json, std::string_view origin) {
  WeightEntry entry;
  const std::int64_t offset = json.at("offset").as_integer();
  const std::string& kind = json.at("kind").as_string();
  const auto packing = std::ranges::find(kPackings, kind, packing_name);
  const auto dtype = dtype_from_name(json.at("dtype").as_string());
  if (offset < 0 || !dtype || (packing == kPackings.end() && kind != kTransposedKind)) {
    fail(ErrorCode::kInvalidArgument, "'{}': tensor '{}' has an unknown dtype, kind or place",
         origin, name);
  }
  entry.offset = static_cast<std::uint64_t>(offset);
  entry.packing = packing == kPackings.end() ? Packing::kPlain : *packing;
  entry.shape = shape_from(json.at("shape"));
  const Json* stored = json.find("stored");
  entry.stored = {stored == nullptr ? entry.shape : shape_from(*stored), *dtype};
  entry.layout = layout_from(json);
  entry.layout.transposed = kind == kTransposedKind;
  const Json* source = json.find("name");
  entry.source_name = source == nullptr ? name : source->as_string();
  return entry;
}

Json entry_json(const std::string& name, const WeightEntry& entry, const std::string& file) {
  Json json;
  json.set("file", file).set("offset", entry.offset).set("dtype", dtype_name(entry.stored.dtype));
  json.set("shape", shape_json(entry.shape)).set("kind", kind_text(entry));
  if (entry.stored.shape != entry.shape) json.set("stored", shape_json(entry.stored.shape));
  WeightLayout rest = entry.layout;
  rest.transposed = false;  // the kind says it
  add_layout(json, rest);
  if (!entry.source_name.empty() && entry.source_name != name) json.set("name", entry.source_name);
  return json;
}

}  // namespace

void add_layout(Json& json, const WeightLayout& layout) {
  if (layout.transposed) json.set("transposed", true);
  if (layout.first_row >= 0) json.set("first_row", layout.first_row);
  if (layout.paired_heads != 0) json.set("paired_heads", layout.paired_heads);
}

WeightLayout layout_from(const Json& json) {
  const Json* transposed = json.find("transposed");
  return {transposed != nullptr && transposed->as_bool(), whole_or(json, "first_row", -1),
          whole_or(json, "paired_heads", 0)};
}

Json shape_json(const Shape& shape) {
  Json json = Json::array();
  for (const std::int64_t axis : shape) json.push(axis);
  return json;
}

Shape shape_from(const Json& json) {
  const Json::Array& axes = json.as_array();
  Shape shape;
  for (const Json& axis : axes) {
    shape.push_back(axis.as_integer());
    if (shape.back() < 0 || shape.size() > kMaxWeightAxes) {
      fail(ErrorCode::kInvalidArgument, "a shape has 0 to {} axes of at least 0", kMaxWeightAxes);
    }
  }
  return shape;
}

std::map<std::string, std::string> parse_weight_index(std::string_view text,
                                                      std::string_view origin) {
  const Json json = Json::parse(text, origin);
  const Json* weights = json.find("weight_map");
  if (weights == nullptr) {
    fail(ErrorCode::kInvalidArgument, "'{}' is no index of safetensors files: it has no weight_map",
         origin);
  }
  check_count(weights->as_object().size(), kMaxWeightTensors, "tensors", origin);
  std::map<std::string, std::string> index;
  for (const auto& [name, value] : weights->as_object()) {
    const std::string& file = value.as_string();
    if (file.empty() || file.size() > kMaxWeightName || name.size() > kMaxWeightName ||
        file.find('/') != std::string::npos || file == "..") {
      fail(ErrorCode::kInvalidArgument,
           "'{}': tensor '{}' lies in '{}', which is not the name of a file beside the index",
           origin, name.substr(0, 80), file.substr(0, 80));
    }
    index.emplace(name, file);
  }
  return index;
}

WeightMap parse_weight_map(std::string_view text, std::string_view origin) {
  const Json json = Json::parse(text, origin);
  const Json* kind = json.find("format");
  if (kind == nullptr || !kind->is_string() || kind->as_string() != kMapFormat) {
    fail(ErrorCode::kInvalidArgument, "'{}' is no map of weights: its format is not '{}'", origin,
         kMapFormat);
  }
  WeightMap map;
  if (const Json* model = json.find("model")) map.model = *model;
  const Json::Object& tensors = json.at("tensors").as_object();
  check_count(tensors.size(), kMaxWeightTensors, "tensors", origin);
  for (const auto& [name, each] : tensors) {
    WeightEntry entry = entry_from(name, each, origin);
    const std::string& file = each.at("file").as_string();
    const auto known = std::ranges::find(map.files, file);
    entry.file = static_cast<std::size_t>(known - map.files.begin());
    if (known == map.files.end()) map.files.push_back(file);
    check_count(map.files.size(), kMaxWeightFiles, "files", origin);
    map.entries.emplace(name, std::move(entry));
  }
  return map;
}

std::string weight_map_text(const WeightMap& map) {
  Json tensors = Json::object();
  Json::Object members;
  for (const auto& [name, entry] : map.entries) {
    members.emplace_back(name, entry_json(name, entry, map.files.at(entry.file)));
  }
  Json json;
  json.set("format", kMapFormat);
  if (!map.model.is_null()) json.set("model", map.model);
  json.set("tensors", Json(std::move(members)));
  return json.dump(1) + "\n";
}

}  // namespace harmonics::inline in_models
