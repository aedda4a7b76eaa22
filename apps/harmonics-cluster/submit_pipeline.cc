#include "submit_pipeline.h"

#include <algorithm>
#include <filesystem>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/units.h>
#include <harmonics/settings/train_settings.h>

namespace harmonics::inline in_cluster_program {
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
         command.trace || command.elastic || command.secure;
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
  return pipeline;
}

void read_model(PipelineSpec& pipeline) {
  if (pipeline.model.empty()) {
    fail(ErrorCode::kInvalidArgument, "the pipeline names no model: give it a .harp file");
  }
  const fs::path file = fs::absolute(pipeline.model);
  pipeline.model = file.string();
  if (pipeline.graph.empty()) pipeline.graph = read_text_file(file, kMaxTaskTextBytes);
  HarpDocument document = parse_harp_document(pipeline.graph, file.string());
  document.folder = file.parent_path();
  make_weights_absolute(pipeline, document);
  std::vector<Setting> flags;
  for (const auto& [key, value] : pipeline.settings) {
    if (find_train_setting_rule(key) == nullptr || key == "parts" || key == "replicas") {
      fail(ErrorCode::kInvalidArgument, "a pipeline has no setting '{}'", key);
    }
    flags.push_back({key, value, 0});
  }
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
  for (const ProducerNode& node : document.graph.producers()) {
    if (std::ranges::find(pipeline.bindings, node.name,
                          &std::pair<std::string, std::string>::first) != pipeline.bindings.end()) {
      continue;
    }
    fail(ErrorCode::kFailedPrecondition, "producer '{}' has no data: add --bind {}=csv:PATH",
         node.name, node.name);
  }
  // What a plan depends on, whether the file or a flag says it.
  put(pipeline.settings, "batch_size", std::to_string(settings.batch_size));
  put(pipeline.settings, "micro_batches", std::to_string(settings.micro_batches));
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
  read_model(pipeline);
  set_pipeline(spec, std::move(pipeline));
}

}  // namespace harmonics::inline in_cluster_program
