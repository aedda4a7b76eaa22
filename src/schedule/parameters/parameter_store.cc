#include "parameter_store.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/runtime/safetensors.h>

#include "replicas/reduction_chunks.h"

namespace harmonics::inline in_schedule {
namespace {

constexpr std::string_view kModel = "model.";
constexpr std::string_view kOptimizer = "optim.";
constexpr const char* kMetadata = "harmonics";
constexpr const char* kKind = "parameter server";

template <typename T>
void scale(Tensor& tensor, double factor) {
  for (T& value : tensor.mutable_values<T>()) value = static_cast<T>(value * factor);
}

NamedTensors scaled(const NamedTensors& tensors, double factor) {
  NamedTensors out = empty_like(tensors);
  for (auto& [name, tensor] : out) {
    std::ranges::copy(tensors.at(name).bytes(), tensor.mutable_bytes().begin());
    if (tensor.dtype() == DType::kFloat32) {
      scale<float>(tensor, factor);
    } else {
      scale<double>(tensor, factor);
    }
  }
  return out;
}

}  // namespace

ParameterStore::ParameterStore(const NamedTensors& start, const ParameterServerOptions& options)
    : options_(options), set_(start, options.optimizer) {
  if (!options_.restore.empty()) load(options_.restore);
  values_ = set_.values();
}

void ParameterStore::apply(std::span<const Contribution> contributions) {
  std::int64_t samples = 0;
  bool same_batch = true;
  for (const Contribution& one : contributions) {
    samples += one.weight.samples;
    same_batch &= one.weight.batch_samples == contributions.front().weight.batch_samples;
  }
  NamedTensors sum;
  for (const Contribution& one : contributions) {
    // Divided by batches of unequal size: undo that first.
    NamedTensors own = same_batch
                           ? one.gradients
                           : scaled(one.gradients, static_cast<double>(one.weight.batch_samples));
    if (sum.empty()) {
      sum = std::move(own);
      continue;
    }
    for (auto& [name, tensor] : sum) tensor = sum_of(tensor, own.at(name));
  }
  const std::int64_t divisor = same_batch ? contributions.front().weight.batch_samples : 1;
  Update update;
  update.updates_before = version_;
  update.learning_rate = options_.optimizer.learning_rate * options_.schedule.at(version_);
  update.gradient_factor =
      samples == 0 ? 0.0 : static_cast<double>(divisor) / static_cast<double>(samples);
  if (options_.clip_norm > 0) {
    double squares = 0;
    for (const auto& [name, square] : ParameterSet::square_sums(sum)) squares += square;
    const double norm = std::sqrt(squares) * update.gradient_factor;
    if (norm > options_.clip_norm) update.gradient_factor *= options_.clip_norm / norm;
  }
  set_.update(sum, update);
  ++version_;
  values_ = set_.values();
  if (options_.checkpoint_every > 0 && version_ % options_.checkpoint_every == 0) {
    save(options_.checkpoint);
  }
}

void ParameterStore::save(const std::filesystem::path& path) const {
  Safetensors content;
  for (const auto& [name, tensor] : values_) {
    content.tensors.emplace(std::string(kModel) + name, tensor);
  }
  for (const auto& [name, tensor] : set_.optimizer_state()) {
    content.tensors.emplace(std::string(kOptimizer) + name, tensor);
  }
  Json json;
  json.set("version", 1).set("kind", kKind).set("updates", version_);
  json.set("shard", static_cast<std::int64_t>(options_.shard));
  json.set("shards", static_cast<std::int64_t>(options_.shards));
  content.metadata["format"] = "pt";
  content.metadata[kMetadata] = json.dump();
  write_safetensors(path, content, /*checksum=*/true);
}

void ParameterStore::load(const std::filesystem::path& path) {
  const Safetensors content = read_safetensors(path);
  const auto text = content.metadata.find(kMetadata);
  const Json json =
      text == content.metadata.end() ? Json::object() : Json::parse(text->second, path.string());
  const Json* kind = json.find("kind");
  if (kind == nullptr || kind->as_string() != kKind) {
    fail(ErrorCode::kInvalidArgument, "'{}' is no checkpoint of a parameter server", path.string());
  }
  if (json.at("shard").as_integer() != options_.shard ||
      json.at("shards").as_integer() != options_.shards) {
    fail(ErrorCode::kInvalidArgument, "'{}' is of shard {} of {}, this server is shard {} of {}",
         path.string(), json.at("shard").as_integer(), json.at("shards").as_integer(),
         options_.shard, options_.shards);
  }
  NamedTensors values, slots;
  for (const auto& [name, tensor] : content.tensors) {
    if (name.starts_with(kModel)) values.emplace(name.substr(kModel.size()), tensor);
    if (name.starts_with(kOptimizer)) slots.emplace(name.substr(kOptimizer.size()), tensor);
  }
  set_.restore(values, slots);
  version_ = json.at("updates").as_integer();
}

}  // namespace harmonics::inline in_schedule
