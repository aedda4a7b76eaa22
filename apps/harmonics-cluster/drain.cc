// harmonics drain: a worker gets no new tasks, or is forgotten.
#include <harmonics/clients/access.h>
#include <harmonics/options/command_line.h>
#include <harmonics/rpc/client.h>

#include "subcommands.h"

namespace harmonics::inline in_cluster_program {

int drain(const DrainCommand& command) {
  ClusterClient client(client_options(command.access));
  if (command.forget) {
    client.forget(command.worker);
  } else {
    client.drain(command.worker, !command.undo);
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_cluster_program
