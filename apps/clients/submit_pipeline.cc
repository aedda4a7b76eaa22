#include "submit_pipeline.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/clients/weights_file.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/units.h>
#include <harmonics/options/graph_argument.h>
#include <harmonics/settings/train_settings.h>

namespace harmonics::inline in_clients {
namespace {

namespace fs = std::filesystem;

/// "csv:data.csv?columns=0" with the path made absolute; a source without a path stays as it is.
std::string absolute_source(const std::string& spec, const fs::path& folder) {
  const std::size_t colon = spec.find(':');
  if (colon == spec.npos) return spec;
  const std::size_t query = std::min(spec.find('?', colon), spec.size());
  const fs::path path = spec.substr(colon + 1, query - colon - 1);
  if (path.empty() || path.is_absolute()) return spec;
  const fs::path whole = fs::absolute(folder / path).lexically_normal();
  return spec.substr(0, colon + 1) + whole.string() + spec.substr(query);
}

// The graph travels as text, its weights stay where they are: the text names them from the root.
void make_weights_absolute(PipelineSpec& pipeline, const HarpDocument& document) {
  for (const Setting& setting : document.weights.entries) {
    if (setting.key != "file" || fs::path(setting.value).is_absolute()) continue;
    std::size_t at = 0;
    for (std::size_t line = 1; line < setting.line; ++line) at = pipeline.graph.find('\n', at) + 1;
    const std::string written = json_quote(setting.value);
    at = pipeline.graph.find(written, at);
    if (at == std::string::npos) {
      fail(ErrorCode::kInvalidArgument, "{}:{}: write the path of the weights in plain quotes",
           pipeline.model, setting.line);
    }
    const fs::path whole = fs::absolute(document.folder / setting.value).lexically_normal();
    pipeline.graph.replace(at, written.size(), json_quote(whole.string()));
  }
}

bool has_flags(const SubmitCommand& command) {
  return command.stages || !command.bindings.empty() || !command.settings.empty() ||
         !command.checkpoint_dir.empty() || command.checkpoint_every || command.profile ||
         command.trace || command.elastic || command.secure || command.infer ||
         !command.weights.empty() || !command.outputs.empty();
}

PipelineSpec with_flags(const SubmitCommand& command, PipelineSpec pipeline) {
  if (!command.pipeline.empty()) {
    pipeline.model = command.pipeline.string();
    pipeline.graph.clear();
  }
  if (command.stages) pipeline.stages = static_cast<std::uint32_t>(*command.stages);
  for (const Binding& binding : command.bindings)
    put(pipeline.bindings, binding.name, binding.spec);
  for (const Setting& setting : command.settings) {
    put(pipeline.settings, setting.key, setting.value);
  }
  if (!command.checkpoint_dir.empty()) {
    pipeline.checkpoint = fs::absolute(command.checkpoint_dir).string();
  }
  if (command.checkpoint_every) {
    pipeline.checkpoint_every = static_cast<std::uint32_t>(*command.checkpoint_every);
  }
  pipeline.profile = pipeline.profile || command.profile;
  pipeline.trace = pipeline.trace || command.trace;
  pipeline.elastic = pipeline.elastic || command.elastic;
  pipeline.secure = pipeline.secure || command.secure;
  pipeline.infer = pipeline.infer || command.infer;
  if (!command.weights.empty()) pipeline.weights = command.weights.string();
  for (const Binding& output : command.outputs) put(pipeline.outputs, output.name, output.spec);
  return pipeline;
}

/// Settings that mean something without learning.
constexpr std::array kInferenceSettings = {"batch_size", "threads", "backend"};

std::vector<Setting> checked_settings(const PipelineSpec& pipeline) {
  std::vector<Setting> settings;
  for (const auto& [key, value] : pipeline.settings) {
    if (find_train_setting_rule(key) == nullptr || key == "parts" || key == "replicas") {
      fail(ErrorCode::kInvalidArgument, "a pipeline has no setting '{}'", key);
    }
    if (pipeline.infer && std::ranges::find(kInferenceSettings, key) == kInferenceSettings.end()) {
      fail(ErrorCode::kInvalidArgument,
           "the setting '{}' is for training: a pipeline with --infer learns nothing, leave it out",
           key);
    }
    settings.push_back({key, value, 0});
  }
  return settings;
}

/// Targets of taps are only needed to learn.
bool needs_data(const HarmonicGraph& graph, const ProducerNode& node, bool infer) {
  if (!infer) return true;
  return std::ranges::any_of(graph.layers(),
                             [&](const LayerNode& layer) {
                               return std::ranges::find(layer.inputs, node.name) !=
                                      layer.inputs.end();
                             }) ||
         std::ranges::find(graph.consumers(), node.name, &ConsumerNode::input) !=
             graph.consumers().end();
}

void check_data(const PipelineSpec& pipeline, const HarmonicGraph& graph) {
  for (const ProducerNode& node : graph.producers()) {
    const auto bound = std::ranges::find(pipeline.bindings, node.name,
                                         &std::pair<std::string, std::string>::first);
    if (bound != pipeline.bindings.end() || !needs_data(graph, node, pipeline.infer)) continue;
    fail(ErrorCode::kFailedPrecondition, "producer '{}' has no data: add --bind {}=csv:PATH",
         node.name, node.name);
  }
}

/// Weights that are there, and outputs that the model has.
void complete_inference(PipelineSpec& pipeline, const HarpDocument& document) {
  const std::vector<ConsumerNode>& consumers = document.graph.consumers();
  for (const auto& [name, output] : pipeline.outputs) {
    if (std::ranges::find(consumers, name, &ConsumerNode::name) != consumers.end()) continue;
    fail(ErrorCode::kNotFound, "--out {}: the graph has no such consumer; it has: {}", name,
         listed(consumers, &ConsumerNode::name));
  }
  if (pipeline.outputs.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "--infer needs --out NAME=csv:FILE, where the rows of a consumer go; the graph has: {}",
         listed(consumers, &ConsumerNode::name));
  }
  const fs::path weights = merge_weights(document, pipeline.model, pipeline.weights);
  if (weights.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' names no weights: give --weights FILE, or write 'weights {{ file = \"…\"; }}' into "
         "it",
         pipeline.model);
  }
  pipeline.weights = fs::absolute(weights).lexically_normal().string();
  pipeline.weights_digest = weights_file_digest(pipeline.weights);
  check_inference(pipeline);
}

void read_model(PipelineSpec& pipeline) {
  if (pipeline.model.empty()) {
    fail(ErrorCode::kInvalidArgument, "the pipeline names no model: give it a .harp file");
  }
  if (pipeline.graph.empty()) pipeline.graph = read_graph_text(pipeline.model, kMaxTaskTextBytes);
  const fs::path file = fs::absolute(pipeline.model);
  pipeline.model = file.string();
  HarpDocument document = parse_harp_document(pipeline.graph, file.string());
  document.folder = file.parent_path();
  make_weights_absolute(pipeline, document);
  const std::vector<Setting> flags = checked_settings(pipeline);
  if (const std::size_t units = graph_units(document.graph).size(); pipeline.stages > units) {
    fail(ErrorCode::kInvalidArgument,
         "graph '{}' cannot be cut into {} stages, it has {} layers (a group counts as one): ask "
         "for 1 to {} stages, or auto",
         document.graph.name(), pipeline.stages, units, units);
  }
  const TrainSettings settings = merge_settings(document, file, flags);
  std::vector<Binding> bindings;
  for (const auto& [name, spec] : pipeline.bindings) bindings.push_back({name, spec});
  for (const SourceBinding& source : merge_bindings(document, file, bindings)) {
    put(pipeline.bindings, source.name, absolute_source(source.spec, source.folder));
  }
  check_data(pipeline, document.graph);
  // What a plan depends on, whether the file or a flag says it.
  put(pipeline.settings, "batch_size", std::to_string(settings.batch_size));
  if (pipeline.infer) {
    complete_inference(pipeline, document);
  } else if (settings.micro_batches == kAutoMicroBatches) {
    fail(ErrorCode::kInvalidArgument,
         "micro-batches auto is measured by 'harmonics train', which has all parts: give a number");
  } else {
    put(pipeline.settings, "micro_batches", std::to_string(settings.micro_batches));
  }
}

}  // namespace

void put(TextPairs& pairs, const std::string& key, const std::string& value) {
  const auto known = std::ranges::find(pairs, key, &std::pair<std::string, std::string>::first);
  if (known == pairs.end()) {
    pairs.emplace_back(key, value);
  } else {
    known->second = value;
  }
}

bool sets(const SubmitCommand& command, std::string_view key) {
  return std::ranges::find(command.fields, key, &TaskFlag::key) != command.fields.end();
}

void complete_pipeline(const SubmitCommand& command, TaskSpec& spec) {
  if (command.pipeline.empty() && !spec.pipeline) {
    if (command.infer) {
      fail(ErrorCode::kInvalidArgument,
           "--infer runs a model in stages over the workers: give --pipeline MODEL.harp");
    }
    if (has_flags(command)) {
      fail(ErrorCode::kInvalidArgument,
           "--stages, --bind, --epochs, --set and --checkpoint-… belong to a pipeline: give "
           "--pipeline MODEL.harp");
    }
    return;
  }
  if (!spec.pipeline) {
    if (!sets(command, "required_gpus")) spec.required_gpus = 0;
    if (!sets(command, "max_retries")) spec.max_retries = kPipelineRetries;
    if (!sets(command, "on_disconnect")) spec.on_disconnect = kPipelineOnDisconnect;
    if (spec.name.empty()) spec.name = command.pipeline.stem().string();
  }
  PipelineSpec pipeline = with_flags(command, spec.pipeline ? *spec.pipeline : PipelineSpec{});
  if (pipeline.infer && command.checkpoint_every) {
    fail(
        ErrorCode::kInvalidArgument,
        "--checkpoint-every is for training: a pipeline with --infer learns nothing, leave it out");
  }
  if (!pipeline.infer && (!pipeline.weights.empty() || !pipeline.outputs.empty())) {
    fail(ErrorCode::kInvalidArgument,
         "--weights and --out are for a pipeline that runs over data: add --infer, or leave them "
         "out");
  }
  read_model(pipeline);
  set_pipeline(spec, std::move(pipeline));
}

}  // namespace harmonics::inline in_clients
