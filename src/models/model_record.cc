#include "model_record.h"

#include <harmonics/base/error.h>

#include "weight_index.h"

namespace harmonics::inline in_models {

std::string name_in_weights(const WeightSource& weights, const std::string& own) {
  if (weights.entries().contains(own)) return own;
  const std::string prefixed = "model." + own;
  if (weights.entries().contains(prefixed)) return prefixed;
  fail(ErrorCode::kNotFound, "the weights have no tensor '{}', which the model has", own);
}

Json record_json(const ImportedModel& model) {
  Json::Object tensors;
  for (const auto& [name, entry] : model.weights.entries()) {
    Json json;
    json.set("name", entry.source_name);
    json.set("stored", shape_json(entry.stored.shape));
    WeightLayout layout = entry.layout;
    layout.paired_heads = 0;  // pairs are GGUF's; the names are those of a folder
    add_layout(json, layout);
    tensors.emplace_back(name, std::move(json));
  }
  Json json;
  json.set("architecture", model.architecture).set("config", model.config);
  json.set("tensors", Json(std::move(tensors)));
  return json;
}

ModelRecord record_from(const Json& json) {
  ModelRecord record;
  record.architecture = json.at("architecture").as_string();
  record.config = json.at("config");
  const Json::Object& tensors = json.at("tensors").as_object();
  if (tensors.size() > kMaxWeightTensors) {
    fail(ErrorCode::kResourceExhausted, "a record of {} tensors, at most {}", tensors.size(),
         kMaxWeightTensors);
  }
  for (const auto& [name, each] : tensors) {
    record.tensors.emplace(name, SourceTensor{each.at("name").as_string(),
                                              shape_from(each.at("stored")), layout_from(each)});
  }
  return record;
}

}  // namespace harmonics::inline in_models
