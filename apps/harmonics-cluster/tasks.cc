// harmonics tasks: the newest tasks.
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/clients/access.h>
#include <harmonics/clients/task_pages.h>
#include <harmonics/clients/task_text.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/rpc/client.h>
#include <harmonics/rpc/view_json.h>

#include "subcommands.h"

namespace harmonics::inline in_cluster_program {
namespace {

std::string task_table(const std::vector<TaskView>& tasks, bool colour) {
  Table table{{{"id", Align::kRight},
               {"name"},
               {"user"},
               {"state"},
               {"tries", Align::kRight},
               {"where"},
               {"since", Align::kRight},
               {"progress or end"}},
              {}};
  const Time now = wall_time();
  for (const TaskView& task : tasks) {
    table.rows.push_back({std::to_string(task.id.value), task.spec.name, task.user, task.state,
                          std::to_string(task.attempts), place_text(task),
                          age_text(task.changed == Time{} ? task.submitted : task.changed, now),
                          task.last ? end_text(*task.last) : progress_text(task.progress)});
  }
  return table.text(colour);
}

std::string quiet_ids(const std::vector<TaskView>& tasks) {
  std::string text;
  for (const TaskView& task : tasks) text += format("{}\n", task.id.value);
  return text;
}

}  // namespace

int tasks(const TasksCommand& command) {
  ClusterClient client(client_options(command.access));
  ListTasksQuery query;
  query.states = command.states;
  query.worker = command.worker;
  query.brief = command.output != OutputStyle::kJson;
  const std::vector<TaskView> found =
      newest_tasks(client, std::move(query), static_cast<std::size_t>(command.limit));
  if (command.output == OutputStyle::kJson) {
    Json list = Json::array();
    for (const TaskView& task : found) list.push(task_json(task));
    write_json(list, 2);
  } else if (command.output == OutputStyle::kQuiet) {
    write_text(TextStream::kOutput, quiet_ids(found));
  } else {
    write_text(TextStream::kOutput, task_table(found, wants_colour(TextStream::kOutput)));
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_cluster_program
