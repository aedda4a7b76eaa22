// harmonics priority: who goes first, changed after all.
#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/clients/access.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/rpc/client.h>

#include "subcommands.h"

namespace harmonics::inline in_cluster_program {

int priority(const PriorityCommand& command) {
  ClusterClient client(client_options(command.access));
  client.set_priority({static_cast<std::uint64_t>(command.task)},
                      static_cast<std::int32_t>(command.priority));
  if (command.output == OutputStyle::kJson) {
    write_json(Json().set("task", command.task).set("priority", command.priority), 2);
  } else if (command.output == OutputStyle::kTable) {
    write_text(TextStream::kOutput,
               format("task {} has the priority {}\n", command.task, command.priority));
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_cluster_program
