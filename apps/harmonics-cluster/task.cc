// harmonics task and harmonics why: one task.
#include <algorithm>
#include <string_view>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/clients/access.h>
#include <harmonics/clients/task_text.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/rpc/client.h>
#include <harmonics/rpc/view_json.h>

#include "subcommands.h"

namespace harmonics::inline in_cluster_program {
namespace {

constexpr std::string_view kSourceParam = "python_source";

std::string task_text(const TaskView& task) {
  const Time now = wall_time();
  std::string text = format("task {}  {}\nstate       {}\nuser        {}\nsubmitted   {} ago\n",
                            task.id.value, escaped(task.spec.name), escaped(task.state),
                            escaped(task.user), age_text(task.submitted, now));
  text +=
      format("attempts    {} ({} failed, {} lost, {} preempted{})\n", task.attempts,
             failed_attempts(task), task.losses, task.preemptions,
             task.refusals == 0 ? "" : format(", {} that a worker could not start", task.refusals));
  if (!task.members.empty()) text += format("where       {}\n", escaped(place_text(task)));
  if (task.last) text += format("last end    {}\n", escaped(end_text(*task.last)));
  if (task.last && task.last->peak_memory_kb != 0) {
    text += format("used        {:.2f} s of cores, {:.1f} MB at most\n",
                   static_cast<double>(task.last->cpu_ms) / 1000,
                   static_cast<double>(task.last->peak_memory_kb) / 1024);
  }
  // How far it had come when it said so last says nothing about a task that has succeeded.
  const bool done = task.state == "succeeded";
  if (const std::string told = progress_text(task.progress, !done); !told.empty()) {
    text += format("{:<12}{}\n", done ? "said last" : "progress", escaped(told));
  }
  for (const char* key : {"checkpoint", "results"}) {
    const std::string folder = plan_folder(task, key);
    if (!folder.empty()) text += format("{:<12}{}\n", key, escaped(folder));
  }
  for (const StageLine& stage : stage_lines(task)) {
    text += format("  {}  on {}  {}\n", escaped(stage.layers), escaped(stage.worker),
                   escaped(stage.progress));
  }
  for (const FileView& file : task.files) {
    text += format("file        {}  {} bytes{}\n", escaped(file.path), file.bytes,
                   file.executable ? ", executable" : "");
  }
  TaskSpec spec = task.spec;
  if (spec.pipeline) {
    PipelineSpec pipeline = *spec.pipeline;
    pipeline.graph.clear();  // Long, and no news to whoever submitted it.
    spec.pipeline = std::move(pipeline);
  }
  // The Python client sends the source of a function along, for people to read.
  const auto source = std::ranges::find(spec.params, kSourceParam, &TextPairs::value_type::first);
  std::string lines;
  if (source != spec.params.end()) {
    lines = "\n" + escaped_lines(source->second) + "\n";
    spec.params.erase(source);
  }
  return text + escaped_json(write_task(spec)) + "\n" + lines;
}

int show_why(const TaskCommand& command, ClusterClient& client) {
  const WhyPending why = client.why({static_cast<std::uint64_t>(command.task)});
  switch (command.output) {
    case OutputStyle::kJson: write_json(why_json(why)); break;
    case OutputStyle::kQuiet:
      write_text(TextStream::kOutput, format("{}\n", to_string(why.reason)));
      break;
    case OutputStyle::kTable: {
      const bool failed = to_string(why.reason) == "backoff";
      const std::string logs =
          format(" 'harmonics logs {} --stream err' has what it said.", command.task);
      write_text(TextStream::kOutput, escaped(why.text) + (failed ? logs : "") + "\n");
      break;
    }
  }
  return kExitDone;
}

}  // namespace

int task(const TaskCommand& command) {
  ClusterClient client(client_options(command.access));
  if (command.why) return show_why(command, client);
  const TaskView view = client.task({static_cast<std::uint64_t>(command.task)});
  if (command.output == OutputStyle::kJson) {
    write_json(task_json(view), 2);
  } else if (command.output == OutputStyle::kQuiet) {
    write_text(TextStream::kOutput, escaped(view.state) + "\n");
  } else {
    write_text(TextStream::kOutput, task_text(view));
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_cluster_program
