// harmonics artifacts: what a task left for its user.
#include <harmonics/base/escaped.h>
#include <harmonics/base/json.h>
#include <harmonics/clients/access.h>
#include <harmonics/clients/taken_artifacts.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/rpc/client.h>
#include <harmonics/rpc/view_json.h>

#include "subcommands.h"

namespace harmonics::inline in_cluster_program {
namespace {

std::string list_text(const std::vector<ArtifactView>& artifacts, OutputStyle style) {
  if (style == OutputStyle::kJson) {
    Json list = Json::array();
    for (const ArtifactView& one : artifacts) list.push(artifact_json(one));
    return escaped_json(list.dump(2)) + "\n";
  }
  Table table{{{"bytes", Align::kRight}, {"artifact"}}, {}};
  std::string names;
  for (const ArtifactView& one : artifacts) {
    names += escaped(one.path) + "\n";
    table.rows.push_back({std::to_string(one.bytes), one.path});
  }
  return style == OutputStyle::kQuiet ? names : table.text(wants_colour(TextStream::kOutput));
}

}  // namespace

int artifacts(const ArtifactsCommand& command) {
  ClusterClient client(client_options(command.access));
  const std::vector<ArtifactView> wanted = take_artifacts(client, command);
  write_text(TextStream::kOutput, list_text(wanted, command.output));
  return kExitDone;
}

}  // namespace harmonics::inline in_cluster_program
