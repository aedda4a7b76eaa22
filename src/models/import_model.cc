#include <harmonics/models/import_model.h>

#include <algorithm>
#include <optional>
#include <set>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/random.h>
#include <harmonics/graph/harp.h>

#include "gguf_model.h"
#include "model_family.h"
#include "onnx/import_onnx.h"

namespace harmonics::inline in_models {
namespace {

// Each has a name in the configuration.
constexpr std::int64_t kMaxNewClasses = 100'000;

/// A model before its family has looked at it.
struct Found {
  Json config;
  std::string origin;
  WeightSource weights;
  std::filesystem::path folder;
};

// The file of that name in the model's folder, or nothing.
std::filesystem::path in_folder(const std::filesystem::path& folder, const char* name) {
  const std::filesystem::path file = folder / name;
  return !folder.empty() && std::filesystem::is_regular_file(file) ? file : "";
}

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
    return {std::move(json), config.string(), WeightSource::open(source), source};
  }
  const auto file = std::make_shared<const MappedFile>(source);
  if (!is_gguf(*file)) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' is neither a folder of a model (config.json and model.safetensors) nor a GGUF file; "
         "an ONNX file ends in .onnx",
         source.string());
  }
  GgufModel model = gguf_model(open_gguf(file), source.string());
  return {std::move(model.config), source.string(), std::move(model.weights), {}};
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

/// Finds the places of a graph's parameters in its source.
class Placing {
 public:
  Placing(const ModelDraft& draft, const DraftRequest& request, const ModelFamily& family)
      : draft_(draft), request_(request), family_(family), table_(written_out(draft)) {}

  /// Each tensor of the source must have found a use.
  WeightSource place(const HarmonicGraph& graph) {
    for (std::size_t i = 0; i < graph.layers().size(); ++i) {
      for (const ParameterSpec& parameter : graph.layer_shape(i).parameters) {
        if (parameter.tied_to.empty()) place(graph.layers()[i], parameter);  // else another owns it
      }
    }
    for (const auto& [name, entry] : request_.source.entries()) {
      if (used_.contains(name) || is_unneeded(name, draft_.unneeded, request_)) continue;
      fail(ErrorCode::kUnimplemented,
           "tensor '{}' of {} has no place in this architecture: is config.json of another model?",
           name, spec_text(entry.spec()));
    }
    WeightSource placed(request_.source.files(), std::move(entries_));
    placed.hold(std::move(held_), held_names_);
    return placed;
  }

  [[nodiscard]] std::vector<std::string> fresh() const {
    std::vector<std::string> names;
    for (const auto& [own, theirs] : held_names_) names.push_back(own);
    return names;
  }

 private:
  void place(const LayerNode& layer, const ParameterSpec& parameter) {
    const std::string own = format("{}.{}", layer.name, parameter.name);
    const NameRow row = row_for(table_, own);
    const std::string theirs = request_.full_name(row.theirs);
    if (request_.classes > 0 && stands_above(own) && !request_.has(row.theirs)) {
      held_.emplace(own, drawn(own, parameter));
      held_names_.emplace(own, exported_name(row.theirs));
      return;
    }
    WeightEntry entry = request_.source.at(theirs);
    entry.shape = parameter.shape;
    entry.layout.transposed = row.layout.transposed;
    entry.layout.first_row = row.layout.first_row;
    entry.source_name = exported_name(row.theirs);
    used_.insert(theirs);
    entries_.emplace(own, std::move(entry));
  }

  // Where a head may miss parameters: all else is the base model.
  static bool stands_above(std::string_view own) {
    return own.starts_with("classifier") || own.starts_with("head.") || own.starts_with("pooler.");
  }

  // A base model's tensors carry its prefix once there is a head beside them.
  std::string exported_name(const std::string& theirs) const {
    const bool moves = request_.classes > 0 && request_.prefix.empty() && !theirs.starts_with('/');
    return moves ? family_.prefix + theirs : request_.full_name(theirs);
  }

  Tensor drawn(const std::string& own, const ParameterSpec& parameter) const {
    Tensor values = Tensor::zeros(parameter.shape, DType::kFloat32);
    if (parameter.name == "bias") return values;
    const Json* range = request_.config.json().find("initializer_range");
    const double deviation = range == nullptr ? kInitializerRange : range->as_number();
    Random random(0, own);
    for (float& value : values.mutable_values<float>()) {
      value = static_cast<float>(deviation * random.normal());
    }
    return values;
  }

  static constexpr double kInitializerRange = 0.02;
  const ModelDraft& draft_;
  const DraftRequest& request_;
  const ModelFamily& family_;
  const NameTable table_;
  std::set<std::string, std::less<>> used_;
  WeightEntries entries_;
  std::map<std::string, Tensor> held_;
  std::map<std::string, std::string> held_names_;  // ours, theirs
};

// The architecture with a head for classes, which must not have one.
std::string with_head(const Choice& choice, const std::string& origin) {
  const ModelFamily& family = choice.family;
  if (family.classifier.empty()) {
    fail(ErrorCode::kUnimplemented, "{}: no head for classes is known for {}: leave out --classes",
         origin, choice.architecture);
  }
  if (choice.architecture != family.architectures.front()) {
    fail(ErrorCode::kInvalidArgument, "{}: {} has a head already: leave out --classes", origin,
         choice.architecture);
  }
  return family.classifier;
}

// What transformers reads of a head: its architecture and the names of its classes.
void note_head(Json& config, const std::string& architecture, std::int64_t classes) {
  config.set("architectures", Json(Json::Array{Json(architecture)}));
  Json names = Json::object(), numbers = Json::object();
  for (std::int64_t i = 0; i < classes; ++i) {
    names.set(std::to_string(i), format("LABEL_{}", i));
    numbers.set(format("LABEL_{}", i), i);
  }
  config.set("id2label", std::move(names)).set("label2id", std::move(numbers));
}

ImportedModel import_onnx_model(const std::filesystem::path& source, const ImportOptions& options) {
  OnnxResult result =
      import_onnx(MappedFile(source), {options.shapes, options.values, options.batch});
  ImportedModel model;
  model.architecture = "ONNX";
  model.harp = to_harp(result.graph);
  model.graph = std::move(result.graph);
  model.weights.hold(std::move(result.weights));
  model.origins = std::move(result.origins);
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
  if (source.extension() == ".onnx") {
    if (options.classes == 0) return import_onnx_model(source, options);
    fail(ErrorCode::kUnimplemented, "'{}': ONNX files get no new heads: leave out --classes",
         source.string());
  }
  if (options.classes < 0 || options.classes > kMaxNewClasses) {
    fail(ErrorCode::kInvalidArgument, "a head for {} classes: 1 to {} can be made", options.classes,
         kMaxNewClasses);
  }
  if (!options.shapes.empty() || !options.values.empty() || options.batch) {
    fail(ErrorCode::kInvalidArgument,
         "the inputs of '{}' have the shapes that its configuration says: --shape, --value and "
         "--batch have no meaning for it",
         source.string());
  }
  Found found = find_model(source);
  ModelConfig config(found.config, found.origin);
  Choice choice = choose_family(config, found.origin);
  if (options.classes > 0) choice.architecture = with_head(choice, found.origin);
  const bool inside = std::ranges::any_of(found.weights.entries(), [&](const auto& each) {
    return each.first.starts_with(choice.family.prefix);
  });
  DraftRequest request{config, found.weights, inside ? choice.family.prefix : "", options.length,
                       options.classes};
  ModelDraft draft = choice.family.draft(request, choice.architecture);
  if (options.classes > 0) {
    // Of the base model alone; heads of some families have no use for it.
    draft.unneeded.insert(draft.unneeded.end(), {"pooler.dense.weight", "pooler.dense.bias"});
  }
  config.finish();
  ImportedModel model;
  model.architecture = choice.architecture;
  model.tokenizer = in_folder(found.folder, "tokenizer.json");
  model.preprocessor = in_folder(found.folder, "preprocessor_config.json");
  const std::string name = options.name.empty() ? choice.architecture : options.name;
  model.harp =
      format("harmonic {} {{{}}}\n", is_user_name(name) ? name : json_quote(name), draft.body);
  model.graph = parse_harp_document(model.harp, "the imported graph").graph;
  Placing placing(draft, request, choice.family);
  model.weights = placing.place(model.graph);
  model.fresh = placing.fresh();
  model.config = std::move(found.config);
  if (options.classes > 0) note_head(model.config, choice.architecture, options.classes);
  model.left_out = config.left_out();
  return model;
}

}  // namespace harmonics::inline in_models
