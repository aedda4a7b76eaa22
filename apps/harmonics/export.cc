// harmonics export: an imported model back as what it came from.
#include <harmonics/base/error.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/graph/harp.h>
#include <harmonics/models/export_model.h>
#include <harmonics/settings/train_settings.h>

#include "subcommands.h"

namespace harmonics::inline in_front {

int export_model(const ExportCommand& command) {
  const HarpDocument document = load_harp_document(command.file);
  const std::filesystem::path named = merge_weights(document, command.file, {});
  if (named.empty()) {
    fail(ErrorCode::kFailedPrecondition,
         "'{}' has no weights section: only what 'harmonics import' wrote goes back",
         command.file.string());
  }
  const WeightSource imported = WeightSource::open(named);
  const WeightSource weights =
      command.weights.empty() ? imported : WeightSource::open(command.weights);
  const ExportedModel done = export_hf(imported, weights, command.folder);
  switch (command.output) {
    case OutputStyle::kTable:
      write_text(
          TextStream::kOutput,
          format("wrote {} and {}: {} tensors, {}B\n", done.config.string(), done.weights.string(),
                 done.tensors, in_short(static_cast<double>(done.bytes))));
      break;
    case OutputStyle::kJson:
      write_json(Json()
                     .set("config", done.config.string())
                     .set("weights", done.weights.string())
                     .set("tensors", static_cast<std::int64_t>(done.tensors))
                     .set("bytes", done.bytes));
      break;
    case OutputStyle::kQuiet: break;
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_front
