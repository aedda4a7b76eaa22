// harmonics graph zoo: well-known networks as .harp text.
#include <harmonics/base/file.h>
#include <harmonics/base/format.h>
#include <harmonics/console/terminal.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/zoo.h>

#include "subcommands.h"

namespace harmonics::inline in_front {

int graph_zoo(const GraphZooCommand& command) {
  if (command.name.empty()) {
    std::string names;
    for (const std::string& name : zoo_names()) names += name + "\n";
    write_text(TextStream::kOutput, names);
    return kExitDone;
  }
  const std::string text = to_harp(zoo_graph(command.name));
  if (command.out.empty()) {
    write_text(TextStream::kOutput, text);
  } else {
    write_text_file(command.out, text);
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_front
