// harmonics workers: the machines of the cluster.
#include <harmonics/base/escaped.h>
#include <harmonics/clients/access.h>
#include <harmonics/clients/task_text.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/rpc/client.h>
#include <harmonics/rpc/view_json.h>

#include "subcommands.h"

namespace harmonics::inline in_cluster_program {

int workers(const WorkersCommand& command) {
  ClusterClient client(client_options(command.access));
  const std::vector<WorkerView> found = client.workers();
  if (command.output == OutputStyle::kJson) {
    Json list = Json::array();
    for (const WorkerView& worker : found) list.push(worker_json(worker));
    write_json(list, 2);
    return kExitDone;
  }
  Table table{{{"worker"},
               {"state"},
               {"devices", Align::kRight},
               {"free", Align::kRight},
               {"cpus", Align::kRight},
               {"memory MB", Align::kRight},
               {"tasks", Align::kRight},
               {"heard", Align::kRight}},
              {}};
  std::string names;
  for (const WorkerView& worker : found) {
    names += escaped(worker.spec.name) + "\n";
    table.rows.push_back({worker.spec.name, worker.state,
                          std::to_string(worker.spec.devices.size()),
                          std::to_string(worker.free_devices.size()),
                          std::to_string(worker.spec.cpus), std::to_string(worker.spec.memory_mb),
                          std::to_string(worker.task_count), age_text(worker.heard, wall_time())});
  }
  write_text(TextStream::kOutput, command.output == OutputStyle::kQuiet
                                      ? names
                                      : table.text(wants_colour(TextStream::kOutput)) +
                                            problem_lines(found, wall_time()));
  return kExitDone;
}

}  // namespace harmonics::inline in_cluster_program
