// harmonics graph dot, harmonics graph svg: pictures of a graph.
#include <harmonics/base/file.h>
#include <harmonics/console/terminal.h>
#include <harmonics/graph/export.h>
#include <harmonics/graph/harp.h>
#include <harmonics/options/graph_argument.h>

#include "subcommands.h"

namespace harmonics::inline in_front {

int graph_draw(const GraphDrawCommand& command) {
  const HarmonicGraph graph = open_graph_document(command.file).graph;
  const std::string picture = command.format == DrawingFormat::kDot ? to_dot(graph) : to_svg(graph);
  if (command.out.empty()) {
    write_text(TextStream::kOutput, picture);
  } else {
    write_text_file(command.out, picture);
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_front
