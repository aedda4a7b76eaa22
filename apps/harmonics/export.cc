// harmonics export: a model as others have it.
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/graph/harp.h>
#include <harmonics/models/export_model.h>
#include <harmonics/options/graph_argument.h>
#include <harmonics/settings/train_settings.h>

#include "subcommands.h"

namespace harmonics::inline in_front {
namespace {

void report(const ExportCommand& command, const std::string& text, const Json& json) {
  switch (command.output) {
    case OutputStyle::kTable: write_text(TextStream::kOutput, text); break;
    case OutputStyle::kJson: write_json(json); break;
    case OutputStyle::kQuiet: break;
  }
}

constexpr std::size_t kLargestDataFile = std::size_t{64} << 20;

// What makes its inputs goes back under the names that transformers looks for.
void copy_data_files(const HarpDocument& document, const std::filesystem::path& folder) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"tokenizer", "tokenizer.json"}, {"preprocessor", "preprocessor_config.json"}};
  for (const auto& [key, name] : kNames) {
    const Setting* const setting = document.weights.find(key);
    if (setting == nullptr) continue;
    write_text_file(folder / name,
                    read_text_file(document.folder / setting->value, kLargestDataFile));
  }
}

void export_folder(const ExportCommand& command, const HarpDocument& document,
                   const std::filesystem::path& named) {
  if (named.empty()) {
    fail(ErrorCode::kFailedPrecondition,
         "'{}' has no weights section: only what 'harmonics import' wrote goes back",
         command.file.string());
  }
  const WeightSource imported = WeightSource::open(named);
  const WeightSource weights =
      command.weights.empty() ? imported : WeightSource::open(command.weights);
  const ExportedModel done = export_hf(imported, weights, command.target);
  copy_data_files(document, command.target);
  report(command,
         format("wrote {} and {}: {} tensors, {}B\n", done.config.string(), done.weights.string(),
                done.tensors, in_short(static_cast<double>(done.bytes))),
         Json()
             .set("config", done.config.string())
             .set("weights", done.weights.string())
             .set("tensors", static_cast<std::int64_t>(done.tensors))
             .set("bytes", done.bytes));
}

void export_file(const ExportCommand& command, const HarmonicGraph& graph,
                 const std::filesystem::path& named) {
  const std::filesystem::path& path = command.weights.empty() ? named : command.weights;
  if (path.empty()) {
    fail(ErrorCode::kFailedPrecondition,
         "'{}' names no weights: give a checkpoint or a safetensors file with --weights",
         command.file.string());
  }
  const ExportedOnnx done = export_onnx(graph, WeightSource::open(path), command.target);
  const std::string beside = done.data.empty() ? "" : format(" and {}", done.data.string());
  report(command,
         format("wrote {}{}: {} nodes, {} tensors, {}B\n", done.file.string(), beside, done.nodes,
                done.tensors, in_short(static_cast<double>(done.bytes))),
         Json()
             .set("file", done.file.string())
             .set("data", done.data.string())
             .set("nodes", static_cast<std::int64_t>(done.nodes))
             .set("tensors", static_cast<std::int64_t>(done.tensors))
             .set("bytes", done.bytes));
}

}  // namespace

int export_model(const ExportCommand& command) {
  const HarpDocument document = open_graph_document(command.file);
  const std::filesystem::path named = merge_weights(document, command.file, {});
  switch (command.format) {
    case ExportFormat::kHf: export_folder(command, document, named); break;
    case ExportFormat::kOnnx: export_file(command, document.graph, named); break;
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_front
