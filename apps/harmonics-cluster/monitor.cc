// harmonics monitor: workers, devices, queue and tasks, drawn anew every second.
#include <algorithm>
#include <atomic>

#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/base/listed.h>
#include <harmonics/clients/access.h>
#include <harmonics/clients/task_pages.h>
#include <harmonics/clients/task_text.h>
#include <harmonics/console/key_reader.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/rpc/client.h>
#include <harmonics/rpc/view_json.h>

#include "monitor_views.h"
#include "signals.h"
#include "subcommands.h"

namespace harmonics::inline in_cluster_program {
namespace {

constexpr std::size_t kShownTasks = 40;
constexpr int kBarWidth = 20;
/// A smaller terminal has no row to spare for them.
constexpr int kRowsForKeys = 12;
constexpr std::chrono::milliseconds kKeyPause(50);

struct Picture {
  ClusterStatus status;
  std::vector<WorkerView> workers;
  std::vector<TaskView> active;
  std::vector<TaskView> queue;
};

Picture look(ClusterClient& client, const MonitorCommand& command) {
  const std::string& worker = command.worker;
  Picture picture{client.status(), client.workers(), {}, {}};
  if (!worker.empty()) {
    std::erase_if(picture.workers, [&](const WorkerView& one) { return one.spec.name != worker; });
    if (picture.workers.empty()) {
      fail(ErrorCode::kNotFound, "there is no worker '{}': 'harmonics workers' lists them",
           escaped(worker));
    }
  }
  ListTasksQuery query;
  query.states = {"active"};
  query.worker = worker;
  query.brief = command.output != OutputStyle::kJson;
  picture.active = first_tasks(client, query, kShownTasks);
  query.states = {"pending", "waiting", "delayed"};
  query.worker.clear();
  if (worker.empty()) picture.queue = first_tasks(client, query, kShownTasks);
  return picture;
}

std::string devices_text(const WorkerView& worker) {
  return listed(worker.spec.devices, [&](const DeviceSpec& device) {
    const bool free =
        std::ranges::find(worker.free_devices, device.name) != worker.free_devices.end();
    return format("{} {}", device.name, free ? "free" : "busy");
  });
}

std::string draw(const Picture& picture, bool colour) {
  const ClusterStatus& status = picture.status;
  std::string text = bold(
      format("harmonics {}, policy {}", escaped(status.version), escaped(status.policy)), colour);
  text += format(
      "\n{} of {} workers connected, {} of {} devices leased\ntasks: {} active, {} pending, "
      "{} waiting, {} delayed, {} ended\n\n",
      status.workers_connected, status.workers, status.devices_leased, status.devices,
      status.active, status.pending, status.waiting, status.delayed, status.ended);
  Table workers{{{"worker"}, {"state"}, {"devices"}, {"tasks", Align::kRight}}, {}};
  for (const WorkerView& worker : picture.workers) {
    workers.rows.push_back(
        {worker.spec.name, worker.state, devices_text(worker), std::to_string(worker.task_count)});
  }
  text += workers.text(colour) + problem_lines(picture.workers, status.now);
  if (!picture.active.empty()) {
    Table tasks{{{"id", Align::kRight}, {"name"}, {"where"}, {"for", Align::kRight}, {"progress"}},
                {}};
    for (const TaskView& task : picture.active) {
      const auto share = progress_share(task.progress);
      tasks.rows.push_back({std::to_string(task.id.value), task.spec.name, place_text(task),
                            age_text(task.changed, status.now),
                            (share ? progress_bar(*share, kBarWidth, false) + " " : "") +
                                progress_text(task.progress)});
      for (const StageLine& stage : stage_lines(task)) {
        tasks.rows.push_back({"", "  " + stage.layers, stage.worker, "", stage.progress});
      }
    }
    text += "\n" + tasks.text(colour);
  }
  if (!picture.queue.empty()) {
    Table queue{{{"id", Align::kRight}, {"name"}, {"state"}, {"since", Align::kRight}}, {}};
    for (const TaskView& task : picture.queue) {
      queue.rows.push_back({std::to_string(task.id.value), task.spec.name, task.state,
                            age_text(task.submitted, status.now)});
    }
    text += "\n" + queue.text(colour);
  }
  return text;
}

Json picture_json(const Picture& picture) {
  Json json = status_json(picture.status);
  Json workers = Json::array();
  for (const WorkerView& worker : picture.workers) workers.push(worker_json(worker));
  Json active = Json::array();
  for (const TaskView& task : picture.active) active.push(task_json(task));
  Json queue = Json::array();
  for (const TaskView& task : picture.queue) queue.push(task_json(task));
  json.set("worker_list", std::move(workers)).set("active", std::move(active));
  return json.set("queue", std::move(queue));
}

/// The view that was asked for, as large as the terminal is.
std::string screen(ClusterClient& client, const MonitorCommand& command, MonitorWish& wish) {
  const bool colour = wants_colour(TextStream::kOutput);
  const int columns = terminal_width(TextStream::kOutput);
  const int rows = terminal_height(TextStream::kOutput);
  std::string text;
  try {
    text = wish.view == MonitorView::kOverview ? draw(look(client, command), colour)
                                               : draw_view(client, wish, colour);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    text = format("{}\n", escaped_lines(error.what()));
  }
  if (rows < kRowsForKeys) return cut_to_size(text, columns, rows);
  return cut_to_size(text, columns, rows - 1) + cut_to_size(key_line(wish) + "\n", columns, 3);
}

void watch_live(const MonitorCommand& command) {
  using Steady = std::chrono::steady_clock;
  std::atomic<bool> over{false};
  const SignalWatch watch([&](int) { over = true; });
  ClusterClient client(client_options(command.access));  // after the watch: it starts threads
  const auto period = std::chrono::duration<double>(std::max(command.refresh_s, 0.05));
  KeyReader keys;
  MonitorWish wish;
  while (!over && !wish.quits) {
    const std::string text = screen(client, command, wish);
    write_text(TextStream::kOutput, "\x1b[H\x1b[2J" + text);
    const auto next = Steady::now() + period;
    while (!over && Steady::now() < next) {
      const int key = keys.next(kKeyPause);
      if (key == 0) continue;
      wish.press(key);
      break;
    }
  }
}

}  // namespace

int monitor(const MonitorCommand& command) {
  if (command.output == OutputStyle::kTable && is_terminal(TextStream::kOutput)) {
    watch_live(command);
    return kExitDone;
  }
  ClusterClient client(client_options(command.access));
  const Picture picture = look(client, command);
  if (command.output == OutputStyle::kJson) {
    write_json(picture_json(picture), 2);
  } else if (command.output == OutputStyle::kTable) {
    write_text(TextStream::kOutput, draw(picture, false));
  } else {
    write_text(TextStream::kOutput,
               format("{} active, {} pending\n", picture.status.active, picture.status.pending));
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_cluster_program
