#include "monitor_views.h"

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/clients/task_pages.h>
#include <harmonics/clients/task_text.h>
#include <harmonics/console/key_reader.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>

namespace harmonics::inline in_cluster_program {
namespace {

constexpr std::size_t kListedTasks = 500;
constexpr std::size_t kShownOutput = 64 << 10;
constexpr std::size_t kMaxFilter = 100;
constexpr const char* kSortNames[] = {"id", "name", "state", "since"};

bool fits(const TaskView& task, const std::string& filter) {
  return filter.empty() || task.spec.name.find(filter) != std::string::npos ||
         task.user.find(filter) != std::string::npos ||
         task.state.find(filter) != std::string::npos;
}

Time since(const TaskView& task) { return task.changed == Time{} ? task.submitted : task.changed; }

void sort_tasks(std::vector<TaskView>& tasks, TaskSort sort) {
  std::ranges::stable_sort(tasks, [sort](const TaskView& a, const TaskView& b) {
    switch (sort) {
      case TaskSort::kName: return a.spec.name < b.spec.name;
      case TaskSort::kState: return a.state < b.state;
      case TaskSort::kSince: return since(a) > since(b);
      case TaskSort::kId: break;
    }
    return a.id > b.id;
  });
}

std::string draw_tasks(ClusterClient& client, MonitorWish& wish, bool colour) {
  ListTasksQuery query;
  query.brief = true;
  std::vector<TaskView> tasks = newest_tasks(client, query, kListedTasks);
  std::erase_if(tasks, [&](const TaskView& task) { return !fits(task, wish.filter); });
  sort_tasks(tasks, wish.sort);
  wish.rows = tasks.size();
  wish.chosen = std::min(wish.chosen, tasks.empty() ? 0 : tasks.size() - 1);
  wish.task = tasks.empty() ? TaskId{} : tasks[wish.chosen].id;
  Table table{{{""},
               {"id", Align::kRight},
               {"name"},
               {"user"},
               {"state"},
               {"where"},
               {"since", Align::kRight},
               {"progress or end"}},
              {}};
  const Time now = wall_time();
  // The chosen one stays in sight: what is above it by more than a screen is left out.
  const std::size_t room = static_cast<std::size_t>(terminal_height(TextStream::kOutput));
  const std::size_t first = wish.chosen > room / 2 ? wish.chosen - room / 2 : 0;
  for (std::size_t i = first; i < tasks.size(); ++i) {
    const TaskView& task = tasks[i];
    table.rows.push_back({i == wish.chosen ? ">" : "", std::to_string(task.id.value),
                          task.spec.name, task.user, task.state, place_text(task),
                          age_text(since(task), now),
                          task.last ? end_text(*task.last) : progress_text(task.progress)});
  }
  return bold(format("tasks by {}", kSortNames[static_cast<int>(wish.sort)]), colour) + "\n" +
         table.text(colour);
}

std::string draw_machine(ClusterClient& client, MonitorWish& wish, bool colour) {
  const std::vector<WorkerView> workers = client.workers();
  wish.rows = workers.size();
  if (workers.empty()) return "there is no machine yet\n";
  wish.chosen = std::min(wish.chosen, workers.size() - 1);
  const WorkerView& worker = workers[wish.chosen];
  std::string text =
      bold(format("machine {} of {}: {}", wish.chosen + 1, workers.size(),
                  escaped(worker.spec.name)),
           colour) +
      format(
          "\nstate       {}\naddress     {}\ncores       {}\nmemory      {} MB\nheard       {} "
          "ago\n",
          escaped(worker.state), escaped(worker.spec.address), worker.spec.cpus,
          worker.spec.memory_mb, age_text(worker.heard, wall_time()));
  text += problem_lines({worker}, wall_time());
  Table devices{{{"device"}, {"model"}, {"memory MB", Align::kRight}, {"state"}}, {}};
  for (const DeviceSpec& device : worker.spec.devices) {
    const bool free =
        std::ranges::find(worker.free_devices, device.name) != worker.free_devices.end();
    devices.rows.push_back(
        {device.name, device.model, std::to_string(device.memory_mb), free ? "free" : "busy"});
  }
  if (!devices.rows.empty()) text += "\n" + devices.text(colour);
  ListTasksQuery query;
  query.brief = true;
  query.worker = worker.spec.name;
  Table tasks{{{"id", Align::kRight}, {"name"}, {"state"}, {"progress or end"}}, {}};
  std::vector<TaskView> found = newest_tasks(client, query, kListedTasks);
  sort_tasks(found, TaskSort::kId);
  for (const TaskView& task : found) {
    tasks.rows.push_back({std::to_string(task.id.value), task.spec.name, task.state,
                          task.last ? end_text(*task.last) : progress_text(task.progress)});
  }
  return text + "\n" + tasks.text(colour);
}

std::string draw_pipelines(ClusterClient& client, MonitorWish& wish, bool colour) {
  ListTasksQuery query;
  query.states = {"active"};
  Table table{{{"id", Align::kRight}, {"name"}, {"machine"}, {"planned and measured"}}, {}};
  for (const TaskView& task : first_tasks(client, query, kListedTasks)) {
    if (!task.spec.pipeline || !fits(task, wish.filter)) continue;
    table.rows.push_back(
        {std::to_string(task.id.value), task.spec.name, "", progress_text(task.progress)});
    for (const StageLine& stage : stage_lines(task)) {
      table.rows.push_back({"", "  " + stage.layers, stage.worker, stage.progress});
    }
  }
  wish.rows = 0;
  return bold("pipelines that run", colour) + "\n" +
         (table.rows.empty() ? "none\n" : table.text(colour));
}

std::string draw_output(ClusterClient& client, const MonitorWish& wish, bool colour) {
  if (wish.task == TaskId{}) return "choose a task first: t, then the arrows\n";
  OutputQuery query;
  query.task = wish.task;
  std::string text;
  client.read_log(query, [&](const OutputPiece& piece) {
    text += piece.data;
    if (text.size() > 2 * kShownOutput) text.erase(0, text.size() - kShownOutput);
    return true;
  });
  std::string lines = escaped_lines(text);
  // The last that fit on the screen, under the heading and above the keys.
  std::size_t at = lines.size();
  for (int row = terminal_height(TextStream::kOutput) - 2; row > 0 && at > 0; --row) {
    at = lines.rfind('\n', at == lines.size() ? at - 2 : at - 1);
    if (at == lines.npos) at = 0;
  }
  lines.erase(0, at == 0 ? 0 : at + 1);
  return bold(format("what task {} prints", wish.task.value), colour) + "\n" + lines;
}

}  // namespace

void MonitorWish::press(int key) {
  if (typing) {
    constexpr int kBackspace = 127;
    if (key == '\n' || key == '\r' || key == 0x1b) typing = false;
    if (key == kBackspace && !filter.empty()) filter.pop_back();
    if (key >= ' ' && key < kBackspace && filter.size() < kMaxFilter) {
      filter += static_cast<char>(key);
    }
    return;
  }
  const auto turn_to = [this](MonitorView next) {
    if (view != next) chosen = 0;
    view = next;
  };
  switch (key) {
    case 'o': turn_to(MonitorView::kOverview); break;
    case 't': turn_to(MonitorView::kTasks); break;
    case 'm': turn_to(MonitorView::kMachine); break;
    case 'p': turn_to(MonitorView::kPipelines); break;
    case 'l': view = MonitorView::kOutput; break;
    case 's': sort = static_cast<TaskSort>((static_cast<int>(sort) + 1) % 4); break;
    case '/':
      typing = true;
      filter.clear();
      break;
    case 'j':
    case kKeyDown: chosen += chosen + 1 < rows ? 1 : 0; break;
    case 'k':
    case kKeyUp: chosen -= chosen > 0 ? 1 : 0; break;
    case 'q': quits = true; break;
    default: break;
  }
}

std::string draw_view(ClusterClient& client, MonitorWish& wish, bool colour) {
  try {
    switch (wish.view) {
      case MonitorView::kTasks: return draw_tasks(client, wish, colour);
      case MonitorView::kMachine: return draw_machine(client, wish, colour);
      case MonitorView::kPipelines: return draw_pipelines(client, wish, colour);
      case MonitorView::kOutput: return draw_output(client, wish, colour);
      case MonitorView::kOverview: break;
    }
  } catch (const Error& error) {
    // Output that is not there yet is no reason to end.
    if (wish.view != MonitorView::kOutput || error.code() == ErrorCode::kUnavailable) throw;
    return escaped_lines(error.what()) + "\n";
  }
  return {};
}

std::string key_line(const MonitorWish& wish) {
  if (wish.typing) return "find: " + wish.filter;
  return format(
      "o overview  t tasks  m machine  p pipelines  l output  s sort: {}  / find{}  arrows  q quit",
      kSortNames[static_cast<int>(wish.sort)],
      wish.filter.empty() ? "" : ": " + escaped(wish.filter));
}

}  // namespace harmonics::inline in_cluster_program
