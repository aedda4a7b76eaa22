#include <harmonics/models/import_model.h>

#include <algorithm>
#include <optional>
#include <set>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/listed.h>
#include <harmonics/graph/harp.h>

#include "gguf_model.h"
#include "model_family.h"
#include "onnx/import_onnx.h"

namespace harmonics::inline in_models {
namespace {

/// A model before its family has looked at it.
struct Found {
  Json config;
  std::string origin;
  WeightSource weights;
};

std::vector<ModelFamily> all_families() {
  std::vector<ModelFamily> all;
  for (const auto& some : {bert_families(), vit_families(), gpt2_families(), llama_families()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

Found find_model(const std::filesystem::path& source) {
  if (std::filesystem::is_directory(source)) {
    const std::filesystem::path config = source / "config.json";
    if (!std::filesystem::exists(config)) {
      fail(ErrorCode::kNotFound,
           "the folder '{}' has no config.json: a model's folder holds config.json and "
           "model.safetensors (or its index)",
           source.string());
    }
    Json json = Json::parse(read_text_file(config, kMaxConfigBytes), config.string());
    return {std::move(json), config.string(), WeightSource::open(source)};
  }
  const auto file = std::make_shared<const MappedFile>(source);
  if (!is_gguf(*file)) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' is neither a folder of a model (config.json and model.safetensors) nor a GGUF file; "
         "an ONNX file ends in .onnx",
         source.string());
  }
  GgufModel model = gguf_model(open_gguf(file), source.string());
  return {std::move(model.config), source.string(), std::move(model.weights)};
}

/// The family, and which of its architectures.
struct Choice {
  ModelFamily family;
  std::string architecture;
};

Choice choose_family(ModelConfig& config, const std::string& origin) {
  const std::string type = config.text("model_type", "");
  const std::string named = config.architecture();
  for (ModelFamily& family : all_families()) {
    const std::vector<std::string>& known = family.architectures;
    if (!named.empty() && std::ranges::find(known, named) != known.end()) {
      return {std::move(family), named};
    }
    if (named.empty() && family.model_type == type) {
      return {std::move(family), known.front()};
    }
  }
  fail(ErrorCode::kUnimplemented,
       "{}: architecture '{}' (model_type '{}') is not known; known are {}", origin,
       named.empty() ? "none" : named, type, listed(known_architectures()));
}

std::string with_block(std::string text, std::int64_t block) {
  const auto replace = [&](std::string_view what, std::int64_t value) {
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
      text.replace(at, what.size(), std::to_string(value));
    }
  };
  replace("$(i-1)", block - 1);
  replace("$i", block);
  return text;
}

using NameTable = std::map<std::string, NameRow, std::less<>>;

NameTable written_out(const ModelDraft& draft) {
  NameTable table;
  for (const NameRow& row : draft.names) {
    const bool repeats = row.own.find('$') != std::string::npos;
    for (std::int64_t block = 1; block <= (repeats ? draft.blocks : 1); ++block) {
      NameRow written{with_block(row.own, block), with_block(row.theirs, block), row.layout};
      table.emplace(written.own, std::move(written));
    }
  }
  return table;
}

// A parameter stands in the table itself, or what owns it does.
NameRow row_for(const NameTable& table, const std::string& parameter) {
  const auto exact = table.find(parameter);
  if (exact != table.end()) return exact->second;
  const std::size_t dot = parameter.rfind('.');
  const auto owner = table.find(parameter.substr(0, dot));
  if (owner == table.end()) {
    fail(ErrorCode::kInternal, "the table of names has no row for '{}'", parameter);
  }
  return {parameter, owner->second.theirs + parameter.substr(dot), owner->second.layout};
}

bool is_unneeded(const std::string& name, const std::vector<std::string>& patterns,
                 const DraftRequest& request) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return pattern.starts_with('*') ? name.ends_with(pattern.substr(1))
                                    : name == request.full_name(pattern);
  });
}

// Places of all parameters of the graph; each tensor of the source must have found a use.
WeightSource placed_weights(const HarmonicGraph& graph, const ModelDraft& draft,
                            const DraftRequest& request) {
  const NameTable table = written_out(draft);
  std::set<std::string, std::less<>> used;
  WeightEntries entries;
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    const LayerNode& layer = graph.layers()[i];
    for (const ParameterSpec& parameter : graph.layer_shape(i).parameters) {
      if (!parameter.tied_to.empty()) continue;  // another layer owns it
      const std::string own = format("{}.{}", layer.name, parameter.name);
      const NameRow row = row_for(table, own);
      const std::string theirs = request.full_name(row.theirs);
      WeightEntry entry = request.source.at(theirs);
      entry.shape = parameter.shape;
      entry.layout.transposed = row.layout.transposed;
      entry.layout.first_row = row.layout.first_row;
      entry.source_name = theirs;
      used.insert(theirs);
      entries.emplace(own, std::move(entry));
    }
  }
  for (const auto& [name, entry] : request.source.entries()) {
    if (used.contains(name) || is_unneeded(name, draft.unneeded, request)) continue;
    fail(ErrorCode::kUnimplemented,
         "tensor '{}' of {} has no place in this architecture: is config.json of another model?",
         name, spec_text(entry.spec()));
  }
  return {request.source.files(), std::move(entries)};
}

ImportedModel import_onnx_model(const std::filesystem::path& source, const ImportOptions& options) {
  OnnxResult result = import_onnx(MappedFile(source), {options.shapes, options.values});
  ImportedModel model;
  model.architecture = "ONNX";
  model.harp = to_harp(result.graph);
  model.graph = std::move(result.graph);
  model.weights.hold(std::move(result.weights));
  return model;
}

}  // namespace

std::vector<std::string> known_architectures() {
  std::vector<std::string> names;
  for (const ModelFamily& family : all_families()) {
    names.insert(names.end(), family.architectures.begin(), family.architectures.end());
  }
  return names;
}

ImportedModel import_model(const std::filesystem::path& source, const ImportOptions& options) {
  if (source.extension() == ".onnx") return import_onnx_model(source, options);
  if (!options.shapes.empty() || !options.values.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "the inputs of '{}' have the shapes that its configuration says: --shape and --value have "
         "no "
         "meaning for it",
         source.string());
  }
  Found found = find_model(source);
  ModelConfig config(found.config, found.origin);
  const Choice choice = choose_family(config, found.origin);
  const bool inside = std::ranges::any_of(found.weights.entries(), [&](const auto& each) {
    return each.first.starts_with(choice.family.prefix);
  });
  DraftRequest request{config, found.weights, inside ? choice.family.prefix : "", options.length};
  const ModelDraft draft = choice.family.draft(request, choice.architecture);
  config.finish();
  ImportedModel model;
  model.architecture = choice.architecture;
  const std::string name = options.name.empty() ? choice.architecture : options.name;
  model.harp =
      format("harmonic {} {{{}}}\n", is_user_name(name) ? name : json_quote(name), draft.body);
  model.graph = parse_harp_document(model.harp, "the imported graph").graph;
  model.weights = placed_weights(model.graph, draft, request);
  model.config = std::move(found.config);
  model.left_out = config.left_out();
  return model;
}

}  // namespace harmonics::inline in_models
