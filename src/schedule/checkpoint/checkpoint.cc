#include <harmonics/schedule/checkpoint.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/log.h>
#include <harmonics/graph/sent_weights.h>
#include <harmonics/models/weight_source.h>
#include <harmonics/runtime/safetensors.h>
#include <harmonics/schedule/secure_run.h>
#include <harmonics/schedule/signed_weights.h>

#include "checkpoint_custody.h"
#include "checkpoint_state.h"

namespace harmonics::inline in_schedule {
namespace {

constexpr std::string_view kModel = "model.";
constexpr std::string_view kOptimizer = "optim.";
constexpr std::string_view kMetadataKey = "harmonics";
constexpr int kCheckpointVersion = 1;
// A file alone says itself of which step it is.
constexpr std::int64_t kAnyStep = -1;

// The name of a tensor in the uncut graph.
std::string uncut_name(const std::string& name) { return name.substr(0, name.find('@')); }

// Whether the line of a layer says what that attribute is.
bool says(std::string_view line, const std::string& key) {
  const std::string_view attributes = line.substr(0, line.rfind(')'));
  return attributes.find(format("({}=", key)) != std::string_view::npos ||
         attributes.find(format(", {}=", key)) != std::string_view::npos;
}

// Whether that is what the attribute is where nobody gives it.
bool is_fallback(const LayerNode& layer, const std::string& key, const Attribute& value) {
  const LayerType* const type = find_layer_type(layer.type);
  if (type == nullptr) return false;
  const auto spec = std::ranges::find(type->attributes, key, &AttributeSpec::name);
  return spec != type->attributes.end() && spec->fallback == value;
}

// Says all that matters for a layer's weights and its meaning, the same in every cut. `like`, where
// it is not empty, is the line of a file, perhaps of a time when the type had fewer attributes: one
// that it does not say, and that is as if it were not given, is left out.
std::string describe_layer(const HarmonicGraph& graph, std::size_t index, std::string_view like) {
  const LayerNode& layer = graph.layers()[index];
  std::string line = format("{} {}(", layer.name, layer.type);
  for (const auto& [key, value] : graph.full_attributes(index)) {
    if (!like.empty() && !says(like, key) && is_fallback(layer, key, value)) continue;
    if (key == "tie_start" || key == "tie_input" || key == kTieHomeMark) continue;  // of a cut tie
    std::string text = attribute_text(value);
    if (key == "tie") {
      const std::string owner = uncut_name(std::get<std::string>(value));
      if (owner == layer.name + ".weight") continue;  // its own, which an earlier part holds
      text = attribute_text(owner);
    }
    line += format("{}{}={}", line.back() == '(' ? "" : ", ", key, text);
  }
  line += format(") {} <-", layer.activation);
  const std::size_t weights = graph.layer_shape(index).given_weight < 0 ? 0 : 1;
  for (std::size_t i = 0; i + weights < layer.inputs.size(); ++i) {
    line += format(" {}", uncut_name(layer.inputs[i]));
  }
  return line;
}

// One line for each layer of the uncut graph that is here, and what each is to be like.
std::vector<std::string> describe_layers(const StageRow& row,
                                         std::span<const std::string> like = {}) {
  std::vector<std::string> lines;
  for (const Stage& stage : row.stages()) {
    const HarmonicGraph& graph = stage->graph();
    for (std::size_t i = 0; i < graph.layers().size(); ++i) {
      if (is_boundary_name(graph.layers()[i].name)) continue;  // sends a tied parameter
      const bool known = lines.size() < like.size();
      lines.push_back(describe_layer(graph, i, known ? like[lines.size()] : std::string()));
    }
  }
  return lines;
}

bool owns_tap(const StageRow& row, const std::string& prediction) {
  for (const Stage& stage : row.stages()) {
    for (const TrainingTap& tap : stage->graph().taps()) {
      if (uncut_name(tap.prediction) == prediction) return true;
    }
  }
  return false;
}

// What the first tap here measures; "" without one.
std::string first_tap(const StageRow& row) {
  for (const Stage& stage : row.stages()) {
    if (!stage->graph().taps().empty()) return uncut_name(stage->graph().taps().front().prediction);
  }
  return {};
}

Json progress_json(const StageRow& row, const TrainingProgress& progress) {
  const LearningState& state = row.state();
  Json positions = Json::object();
  for (const auto& [name, position] : progress.positions) {
    positions.set(name,
                  Json(Json::Array{position.order.seed, position.order.epoch, position.delivered}));
  }
  Json layers = Json::array();
  for (const std::string& line : describe_layers(row)) layers.push(line);
  Json json;
  json.set("version", kCheckpointVersion);
  json.set("steps", state.steps).set("updates", state.updates);
  json.set("loss_scale", state.loss_scale).set("steps_since_overflow", state.steps_since_overflow);
  json.set("precision", precision_name(row.stages().front()->precision()));
  LearningSettings settings = row.settings();
  if (settings.data.batch_size == 0) settings.data.batch_size = progress.batch_rows;
  json.set("settings", settings_json(settings));
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
  json.set("tapped", first_tap(row));
  json.set("positions", std::move(positions));
  json.set("layers", std::move(layers));
  if (Json custody = custody_json(row); !custody.is_null()) {
    json.set("custody", std::move(custody));
  }
  return json;
}

// What a checkpoint holds, of however many files.
struct Content {
  NamedTensors tensors;
  std::vector<Json> states;  // one of each file
  std::vector<std::string> layers;
};

// "linear" of "fc linear(…) … <- image".
std::string_view layer_name(std::string_view line) { return line.substr(0, line.find(' ')); }

// The file's lines in the order of ours; lines that only the file has come last.
std::vector<std::string> in_our_order(const std::vector<std::string>& theirs,
                                      const std::vector<std::string>& ours, bool partial) {
  std::vector<std::string> rest = theirs;
  std::vector<std::string> ordered;
  for (const std::string& line : ours) {
    const auto found = std::ranges::find(rest, layer_name(line), layer_name);
    ordered.push_back(found == rest.end() ? "nothing" : *found);
    if (found != rest.end()) rest.erase(found);
  }
  if (!partial) ordered.insert(ordered.end(), rest.begin(), rest.end());
  return ordered;
}

void refuse_another_graph(const std::filesystem::path& path, const StageRow& row,
                          const Content& content) {
  const std::vector<std::string> ours = describe_layers(row);
  const bool whole = !row.is_partial() && content.states.size() == 1;
  const std::vector<std::string> theirs =
      whole ? content.layers : in_our_order(content.layers, ours, row.is_partial());
  const std::vector<std::string> as_theirs = describe_layers(row, theirs);
  for (std::size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    const std::string there = i < theirs.size() ? theirs[i] : "nothing";
    const std::string here = i < ours.size() ? ours[i] : "nothing";
    if (here == there || (i < ours.size() && as_theirs[i] == there)) continue;
    fail(ErrorCode::kFailedPrecondition,
         "'{}' is a checkpoint of another graph: layer number {} is\n  {}\nin the file and\n  "
         "{}\nhere",
         path.string(), i + 1, there, here);
  }
}

// The state of one file, of a version that this program reads.
Json state_of(const std::filesystem::path& path, const Safetensors& file) {
  const auto text = file.metadata.find(std::string(kMetadataKey));
  if (text == file.metadata.end()) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' is a safetensors file, but no checkpoint of Harmonics; load it as start weights "
         "instead",
         path.string());
  }
  Json json = Json::parse(text->second, path.string());
  if (json.at("version").as_integer() != kCheckpointVersion) {
    fail(ErrorCode::kUnimplemented, "'{}' has checkpoint version {}, this program reads version {}",
         path.string(), json.at("version").as_integer(), kCheckpointVersion);
  }
  return json;
}

void check_digest(const std::filesystem::path& path, const Safetensors& file,
                  const std::string& expected) {
  const auto digest = file.metadata.find("sha256");
  const std::string there = digest == file.metadata.end() ? "none" : digest->second;
  if (expected.empty() || expected == there) return;
  fail(ErrorCode::kDataLoss,
       "'{}' is another file than the manifest names: its digest is {}, {} was expected",
       path.string(), there, expected);
}

Content read_content(const std::filesystem::path& folder, const SavedStep& saved) {
  Content content;
  for (const StageFile& stage : saved.stages) {
    const std::filesystem::path path = folder / stage.file;
    Safetensors file = read_safetensors(path);
    check_digest(path, file, stage.sha256);
    const Json& state = content.states.emplace_back(state_of(path, file));
    if (saved.step != kAnyStep && state.at("steps").as_integer() != saved.step) {
      fail(ErrorCode::kDataLoss, "'{}' is of step {}, step {} was expected", path.string(),
           state.at("steps").as_integer(), saved.step);
    }
    for (const Json& line : state.at("layers").as_array()) {
      content.layers.push_back(line.as_string());
    }
    content.tensors.merge(file.tensors);
  }
  return content;
}

// The first file of the step that is not there; empty: all are.
std::string lost_file(const std::filesystem::path& folder, const SavedStep& saved) {
  for (const StageFile& stage : saved.stages) {
    if (!std::filesystem::exists(folder / stage.file)) return stage.file;
  }
  return {};
}

// The newest step of a path, some of whose files may be lost.
SavedStep latest_step(const std::filesystem::path& path) {
  if (is_manifest(path)) return read_manifest(path).latest;
  return {kAnyStep, {{"", path.filename().string(), ""}}};
}

// The newest step of which all files are there.
SavedStep whole_step(const std::filesystem::path& path) {
  if (!is_manifest(path)) return latest_step(path);
  const Manifest manifest = read_manifest(path);
  const std::string missing = lost_file(path.parent_path(), manifest.latest);
  if (missing.empty()) return manifest.latest;
  const auto& before = manifest.previous;
  if (!before || before->stages.empty() || !lost_file(path.parent_path(), *before).empty()) {
    fail(ErrorCode::kDataLoss,
         "the checkpoint '{}' has lost '{}' of step {}, and no earlier step is whole: put the file "
         "back, or begin anew without --resume",
         path.string(), missing, manifest.latest.step);
  }
  log_warn("schedule", "the checkpoint '{}' has lost '{}' of step {}: going back to step {}",
           path.string(), missing, manifest.latest.step, before->step);
  return *before;
}

// The counters are the same in all files. Sums of taps belong to the row that has those taps;
// producers' positions to whoever binds the producer.
TrainingProgress joined_progress(const Content& content, const StageRow& row) {
  TrainingProgress progress = progress_from(content.states.front());
  progress.taps_in_epoch = {};
  progress.positions.clear();
  for (const Json& state : content.states) {
    const TrainingProgress one = progress_from(state);
    progress.positions.insert(one.positions.begin(), one.positions.end());
    const Json* tapped = state.find("tapped");
    const bool ours = !row.is_partial() ||
                      (tapped == nullptr ? row.has_tap() : owns_tap(row, tapped->as_string()));
    if (ours) progress.taps_in_epoch += one.taps_in_epoch;
  }
  return progress;
}

// Takes over what this runtime was not given, and says what it was and wins.
void join_settings(const std::filesystem::path& path, const Json& state, StageRow& row,
                   TrainingProgress& progress) {
  const Json* json = state.find("settings");
  if (json == nullptr || row.on_load() == SettingsOnLoad::kKeep) return;
  const LearningSettings saved = settings_from_json(*json);
  progress.batch_rows = saved.data.batch_size;
  if (saved.reproducible && !row.settings().reproducible) {
    log_warn("schedule",
             "'{}' was made by a reproducible run and this one is none: from here on its bits "
             "depend on this machine; set RuntimeOptions::reproducible to go on as it began",
             path.string());
  }
  const ResumedSettings resumed = resumed_settings(row.settings(), saved);
  if (!resumed.given.empty()) {
    log_warn("schedule", "goes on with {} as given here; in parentheses what '{}' was trained with",
             listed(resumed.given), path.string());
  }
  if (!resumed.taken.empty()) {
    log_info("schedule", "goes on with {} of '{}'; in parentheses the defaults",
             listed(resumed.taken), path.string());
  }
  row.set_settings(resumed.settings);
}

// Precision is what this runtime was made with, wherever the checkpoint comes from.
void warn_of_another_precision(const std::filesystem::path& folder, const SavedStep& saved,
                               const Json& state, const StageRow& row) {
  const std::string& there = state.at("precision").as_string();
  const std::string_view here = precision_name(row.stages().front()->precision());
  if (there == here) return;
  log_warn("schedule", "'{}' was trained in precision {} and goes on in {}",
           (folder / saved.stages.front().file).string(), there, here);
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

std::string save_checkpoint(const std::filesystem::path& path, const StageRow& row,
                            const TrainingProgress& progress) {
  Safetensors content;
  for (auto& [name, tensor] : row.parameters()) {
    content.tensors.emplace(std::string(kModel) + name, tensor);
  }
  for (auto& [name, tensor] : row.optimizer_state()) {
    content.tensors.emplace(std::string(kOptimizer) + name, tensor);
  }
  content.metadata["format"] = "pt";  // what PyTorch's own loaders look for
  content.metadata[std::string(kMetadataKey)] = progress_json(row, progress).dump();
  return write_safetensors(path, content, /*checksum=*/true);
}

TrainingProgress load_checkpoint(const std::filesystem::path& path, StageRow& row) {
  return load_saved_step(path.parent_path(), whole_step(path), row);
}

TrainingProgress load_saved_step(const std::filesystem::path& folder, const SavedStep& saved,
                                 StageRow& row) {
  const Content content = read_content(folder, saved);
  const std::filesystem::path first = folder / saved.stages.front().file;
  refuse_another_graph(first, row, content);
  const Json& json = content.states.front();
  TrainingProgress progress;
  LearningState state;
  try {
    progress = joined_progress(content, row);
    state = learning_state_from(json);
  } catch (const Error& error) {
    fail(ErrorCode::kDataLoss, "'{}' is no usable checkpoint: {}", first.string(), error.what());
  }
  const NamedTensors parameters = with_prefix(content.tensors, kModel);
  const NamedTensors slots = with_prefix(content.tensors, kOptimizer);
  warn_of_another_precision(folder, saved, json, row);
  restore_custody(folder, content.states, parameters, row);
  for (Stage& stage : row.stages()) stage->set_parameters(parameters);
  join_settings(first, json, row, progress);
  for (Stage& stage : row.stages()) stage->set_optimizer_state(slots, state.updates);
  row.set_state(state);
  return progress;
}

std::int64_t checkpoint_steps(const std::filesystem::path& path) {
  if (is_manifest(path)) return read_manifest(path).latest.step;
  return state_of(path, read_safetensors(path)).at("steps").as_integer();
}

std::optional<LearningSettings> checkpoint_settings(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  for (const StageFile& stage : latest_step(path).stages) {
    const std::filesystem::path file = path.parent_path() / stage.file;
    if (!std::filesystem::exists(file)) continue;
    const Json state = state_of(file, {{}, read_safetensors_metadata(file)});
    const Json* json = state.find("settings");
    if (json == nullptr) return std::nullopt;
    return settings_from_json(*json);
  }
  return std::nullopt;
}

std::map<std::string, std::vector<std::string>> checkpoint_signed_weights(
    const std::filesystem::path& path) {
  std::vector<Json> states;
  for (const StageFile& stage : latest_step(path).stages) {
    const std::filesystem::path file = path.parent_path() / stage.file;
    states.push_back(state_of(file, {{}, read_safetensors_metadata(file)}));
  }
  return signed_names(states);
}

NamedTensors checkpoint_weights(const std::filesystem::path& path) {
  return with_prefix(read_content(path.parent_path(), whole_step(path)).tensors, kModel);
}

namespace {

// The name in a file of a parameter of ours: mapped or as it is, with or without "model.".
template <typename ByName>
std::string name_in_file(const ByName& tensors, const std::map<std::string, std::string>& names,
                         const std::string& name, const std::filesystem::path& path) {
  const auto mapped = names.find(name);
  std::string wanted = mapped == names.end() ? name : mapped->second;
  if (tensors.contains(wanted)) return wanted;
  if (std::string prefixed = std::string(kModel) + wanted; tensors.contains(prefixed)) {
    return prefixed;
  }
  fail(ErrorCode::kNotFound,
       "'{}' has no tensor '{}' for parameter '{}': map the name to one that the file has",
       path.string(), wanted, name);
}

// Files without a checksum are mapped: of the tensors only those of these stages are read.
bool is_read_whole(const std::filesystem::path& path) {
  return is_manifest(path) ||
         (!is_mapped_source(path) && read_safetensors_metadata(path).contains("sha256"));
}

// Of all parameters, without looking at their values: nobody need draw what is about to be loaded.
std::map<std::string, Shape> parameter_shapes(const StageRow& row) {
  std::map<std::string, Shape> shapes;
  for (const Stage& stage : row.stages()) {
    const HarmonicGraph& graph = stage->graph();
    for (std::size_t i = 0; i < graph.layers().size(); ++i) {
      for (const ParameterSpec& spec : graph.layer_shape(i).parameters) {
        shapes.emplace(parameter_name(graph.layers()[i], spec), spec.shape);
      }
    }
  }
  return shapes;
}

void load_mapped(const std::filesystem::path& path, StageRow& row,
                 const std::map<std::string, std::string>& names) {
  const WeightSource source = WeightSource::open(path);
  std::map<std::string, std::string> places;
  for (const auto& [name, own] : parameter_shapes(row)) {
    const std::string place = name_in_file(source.entries(), names, name, path);
    const Shape& shape = source.at(place).shape;
    if (shape != own) {
      fail(ErrorCode::kInvalidArgument, "'{}' has shape {} here, '{}' of '{}' has {}", name,
           shape_text(own), place, path.string(), shape_text(shape));
    }
    places.emplace(name, place);
  }
  for (Stage& stage : row.stages()) {
    std::string last;
    stage->load_parameters([&](const std::string& name) {
      if (!last.empty()) source.forget(last);
      last = places.at(name);
      return source.read(last);
    });
    if (!last.empty()) source.forget(last);
  }
}

}  // namespace

void load_weights(const std::filesystem::path& path, StageRow& row,
                  const std::map<std::string, std::string>& names) {
  if (is_read_whole(path)) {
    const NamedTensors tensors = is_manifest(path)
                                     ? read_content(path.parent_path(), whole_step(path)).tensors
                                     : read_safetensors(path).tensors;
    NamedTensors chosen;
    for (const auto& [name, shape] : parameter_shapes(row)) {
      chosen.emplace(name, tensors.at(name_in_file(tensors, names, name, path)));
    }
    for (Stage& stage : row.stages()) stage->set_parameters(chosen);
  } else {
    load_mapped(path, row, names);
  }
  if (row.custody() != nullptr) row.custody()->forget_weights();
}

}  // namespace harmonics::inline in_schedule
