// harmonics graph check: one line when a file is in order, the first mistake when it is not.
#include <harmonics/base/format.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/graph_argument.h>
#include <harmonics/settings/train_settings.h>

#include "subcommands.h"

namespace harmonics::inline in_front {

int graph_check(const GraphCheckCommand& command) {
  const HarpDocument document = open_graph_document(command.file);
  static_cast<void>(merge_settings(document, command.file, {}));
  static_cast<void>(merge_bindings(document, command.file, {}));
  std::string text;
  for (const std::string& warning : document.graph.warnings()) {
    text += format("{}: warning: {}\n", command.file.string(), warning);
  }
  write_text(TextStream::kError, text);
  write_text(
      TextStream::kOutput,
      format("{}: '{}' is in order: {} layers, {}\n", command.file.string(), document.graph.name(),
             document.graph.layers().size(),
             document.graph.resolved() ? "all shapes known" : "shapes follow from the data"));
  return kExitDone;
}

}  // namespace harmonics::inline in_front
