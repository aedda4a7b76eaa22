#include <harmonics/runtime/checkpoint.h>

#include <cmath>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/runtime/safetensors.h>

namespace harmonics {
namespace {

constexpr std::string_view kModel = "model.";
constexpr std::string_view kOptimizer = "optim.";
constexpr std::string_view kMetadataKey = "harmonics";
constexpr int kVersion = 1;

// One line per layer that says all that matters for its weights and its meaning.
std::vector<std::string> describe_layers(const StageChain& chain) {
  std::vector<std::string> lines;
  for (const Stage& stage : chain.stages()) {
    const HarmonicGraph& graph = stage.graph();
    for (std::size_t i = 0; i < graph.layers().size(); ++i) {
      const LayerNode& layer = graph.layers()[i];
      std::string line = format("{} {}(", layer.name, layer.type);
      for (const auto& [key, value] : graph.full_attributes(i)) {
        line += format("{}{}={}", line.back() == '(' ? "" : ", ", key, attribute_text(value));
      }
      line += format(") {} <-", layer.activation);
      for (const std::string& input : layer.inputs) {
        line += format(" {}", input.substr(0, input.find('@')));  // the same in every cut
      }
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

Json progress_json(const StageChain& chain, const TrainingProgress& progress) {
  const LearningState& state = chain.state();
  Json positions = Json::object();
  for (const auto& [name, position] : progress.positions) {
    positions.set(name,
                  Json(Json::Array{position.order.seed, position.order.epoch, position.delivered}));
  }
  Json layers = Json::array();
  for (const std::string& line : describe_layers(chain)) layers.push(line);
  Json json;
  json.set("version", kVersion);
  json.set("steps", state.steps).set("updates", state.updates);
  json.set("loss_scale", state.loss_scale).set("steps_since_overflow", state.steps_since_overflow);
  json.set("precision", precision_name(chain.stages().front().precision()));
  json.set("epochs_done", progress.epochs_done);
  json.set("batches_in_epoch", progress.batches_in_epoch);
  json.set("samples_in_epoch", progress.samples_in_epoch);
  json.set("loss_sum_in_epoch", progress.taps_in_epoch.loss_sum);
  json.set("judged_in_epoch", progress.taps_in_epoch.judged);
  json.set("correct_in_epoch", progress.taps_in_epoch.correct);
  if (progress.last_train_loss) json.set("last_train_loss", *progress.last_train_loss);
  if (progress.last_train_accuracy) json.set("last_train_accuracy", *progress.last_train_accuracy);
  json.set("best_loss", progress.best_loss);
  json.set("epochs_since_best", progress.epochs_since_best);
  json.set("positions", std::move(positions));
  json.set("layers", std::move(layers));
  return json;
}

TrainingProgress progress_from(const Json& json) {
  TrainingProgress progress;
  progress.epochs_done = json.at("epochs_done").as_integer();
  progress.batches_in_epoch = json.at("batches_in_epoch").as_integer();
  progress.samples_in_epoch = json.at("samples_in_epoch").as_integer();
  progress.taps_in_epoch = {json.at("loss_sum_in_epoch").as_number(),
                            json.at("judged_in_epoch").as_integer(),
                            json.at("correct_in_epoch").as_integer()};
  if (const Json* loss = json.find("last_train_loss")) {
    progress.last_train_loss = loss->as_number();
  }
  if (const Json* accuracy = json.find("last_train_accuracy")) {
    progress.last_train_accuracy = accuracy->as_number();
  }
  progress.best_loss = json.at("best_loss").as_number();
  progress.epochs_since_best = json.at("epochs_since_best").as_integer();
  for (const auto& [name, value] : json.at("positions").as_object()) {
    const auto& numbers = value.as_array();
    if (numbers.size() != 3)
      fail(ErrorCode::kInvalidArgument, "the position of '{}' is damaged", name);
    progress.positions[name] = {{static_cast<std::uint64_t>(numbers[0].as_integer()),
                                 static_cast<std::uint64_t>(numbers[1].as_integer())},
                                numbers[2].as_integer()};
  }
  return progress;
}

void refuse_another_graph(const std::filesystem::path& path, const StageChain& chain,
                          const Json& json) {
  const auto& theirs = json.at("layers").as_array();
  const std::vector<std::string> ours = describe_layers(chain);
  for (std::size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    const std::string there = i < theirs.size() ? theirs[i].as_string() : "nothing";
    const std::string here = i < ours.size() ? ours[i] : "nothing";
    if (here == there) continue;
    fail(ErrorCode::kFailedPrecondition,
         "'{}' is a checkpoint of another graph: layer number {} is\n  {}\nin the file and\n  "
         "{}\nhere",
         path.string(), i + 1, there, here);
  }
}

NamedTensors with_prefix(const NamedTensors& tensors, std::string_view prefix) {
  NamedTensors found;
  for (auto at = tensors.lower_bound(prefix); at != tensors.end() && at->first.starts_with(prefix);
       ++at) {
    found.emplace(at->first.substr(prefix.size()), at->second);
  }
  return found;
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const StageChain& chain,
                     const TrainingProgress& progress) {
  Safetensors content;
  for (auto& [name, tensor] : chain.parameters()) {
    content.tensors.emplace(std::string(kModel) + name, tensor);
  }
  for (auto& [name, tensor] : chain.optimizer_state()) {
    content.tensors.emplace(std::string(kOptimizer) + name, tensor);
  }
  content.metadata["format"] = "pt";  // what PyTorch's own loaders look for
  content.metadata[std::string(kMetadataKey)] = progress_json(chain, progress).dump();
  write_safetensors(path, content, /*checksum=*/true);
}

TrainingProgress load_checkpoint(const std::filesystem::path& path, StageChain& chain) {
  const Safetensors content = read_safetensors(path);
  const auto text = content.metadata.find(std::string(kMetadataKey));
  if (text == content.metadata.end()) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' is a safetensors file, but no checkpoint of Harmonics; load it as start weights "
         "instead",
         path.string());
  }
  const Json json = Json::parse(text->second, path.string());
  if (json.at("version").as_integer() != kVersion) {
    fail(ErrorCode::kUnimplemented, "'{}' has checkpoint version {}, this program reads version {}",
         path.string(), json.at("version").as_integer(), kVersion);
  }
  refuse_another_graph(path, chain, json);
  const TrainingProgress progress = progress_from(json);
  LearningState state;
  state.steps = json.at("steps").as_integer();
  state.updates = json.at("updates").as_integer();
  state.loss_scale = json.at("loss_scale").as_number();
  state.steps_since_overflow = json.at("steps_since_overflow").as_integer();
  const NamedTensors parameters = with_prefix(content.tensors, kModel);
  const NamedTensors slots = with_prefix(content.tensors, kOptimizer);
  for (Stage& stage : chain.stages()) stage.set_parameters(parameters);
  for (Stage& stage : chain.stages()) stage.set_optimizer_state(slots, state.updates);
  chain.set_state(state);
  return progress;
}

void load_weights(const std::filesystem::path& path, StageChain& chain,
                  const std::map<std::string, std::string>& names) {
  const Safetensors content = read_safetensors(path);
  NamedTensors chosen;
  for (const auto& [name, own] : chain.parameters()) {
    const auto mapped = names.find(name);
    const std::string wanted = mapped == names.end() ? name : mapped->second;
    auto found = content.tensors.find(wanted);
    if (found == content.tensors.end()) found = content.tensors.find(std::string(kModel) + wanted);
    if (found == content.tensors.end()) {
      fail(ErrorCode::kNotFound,
           "'{}' has no tensor '{}' for parameter '{}': map the name to one that the file has",
           path.string(), wanted, name);
    }
    chosen.emplace(name, found->second);
  }
  for (Stage& stage : chain.stages()) stage.set_parameters(chosen);
}

}  // namespace harmonics
