// harmonics submit: a task from a file and flags; acknowledged once it is on the server's disk.
#include <atomic>
#include <cstdlib>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/base/json.h>
#include <harmonics/clients/access.h>
#include <harmonics/clients/dag_file.h>
#include <harmonics/clients/task_of_command.h>
#include <harmonics/clients/task_text.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/rpc/client.h>

#include "signals.h"
#include "subcommands.h"

namespace harmonics::inline in_cluster_program {
namespace {

std::string submitted_text(const SubmitCommand& command, const Submitted& submitted) {
  const std::uint64_t first = submitted.first.value;
  switch (command.output) {
    case OutputStyle::kJson:
      return Json()
                 .set("task", first)
                 .set("count", std::int64_t{submitted.count})
                 .set("already", submitted.already)
                 .set("advice", submitted.advice)
                 .dump() +
             "\n";
    case OutputStyle::kQuiet: return format("{}\n", first);
    case OutputStyle::kTable: break;
  }
  const std::string what = submitted.count == 1
                               ? format("task {}", first)
                               : format("tasks {} to {}", first, first + submitted.count - 1);
  return format("{} {}\n", submitted.already ? "already there:" : "submitted", what);
}

/// What became of a task that was waited for, and where to look when it is no success.
std::string end_of_one(const TaskView& task) {
  const std::uint64_t id = task.id.value;
  if (task.state == "succeeded") return format("task {} succeeded\n", id);
  return format("task {} {}{}: see 'harmonics task {}' and 'harmonics logs {} --stream err'\n", id,
                escaped(task.state),
                task.last ? format(" ({})", escaped(end_text(*task.last))) : "", id, id);
}

/// Plus its number, as shells count.
constexpr int kExitBySignal = 128;

/// Ends the program on a signal, and says that what was handed in does not end with it.
class LeavingLine {
 public:
  void handed_in(TaskId first) { first_ = first.value; }

  [[noreturn]] void leave(int signal) const {
    if (const std::uint64_t id = first_; id != 0) {
      write_text(TextStream::kError,
                 format("task {} goes on: 'harmonics wait {}' waits again, 'harmonics cancel {}' "
                        "stops it\n",
                        id, id, id));
    }
    std::_Exit(kExitBySignal + signal);
  }

 private:
  std::atomic<std::uint64_t> first_ = 0;  ///< 0: nothing yet.
};

int wait_for(const SubmitCommand& command, const Submitted& submitted, ClusterClient& client) {
  const WaitResult ends = client.wait(submitted.first, std::chrono::hours(24 * 365));
  const bool good = ends.succeeded == submitted.count;
  if (command.output == OutputStyle::kQuiet) return good ? kExitDone : kExitFailed;
  if (submitted.count == 1) {
    write_text(TextStream::kError, end_of_one(client.task(submitted.first)));
  } else if (!good) {
    write_text(TextStream::kError,
               format("{} of {} failed or were cancelled: see 'harmonics tasks'\n",
                      submitted.count - ends.succeeded, submitted.count));
  }
  return good ? kExitDone : kExitFailed;
}

}  // namespace

namespace {

/// Name and number of each, as they follow each other.
std::string dag_text(const SubmitCommand& command, const Submitted& submitted,
                     const std::vector<DagRequest::Node>& nodes) {
  Json list = Json::array();
  std::string text;
  std::uint64_t first = submitted.first.value;
  for (const DagRequest::Node& node : nodes) {
    list.push(Json()
                  .set("name", node.spec.name)
                  .set("task", first)
                  .set("count", std::int64_t{node.spec.count()}));
    text += command.output == OutputStyle::kQuiet
                ? format("{}\n", first)
                : format("submitted task {} ({}{})\n", first, escaped(node.spec.name),
                         node.spec.array == 0 ? "" : format(", {} tasks", node.spec.array));
    first += node.spec.count();
  }
  if (command.output != OutputStyle::kJson) return text;
  return Json().set("tasks", std::move(list)).set("advice", submitted.advice).dump() + "\n";
}

int submit_dag(const SubmitCommand& command) {
  if (!command.command.empty() || !command.config.empty() || !command.fields.empty() ||
      !command.pipeline.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "--dag takes all of its tasks from the file: leave other tasks and their flags out");
  }
  const std::vector<DagRequest::Node> nodes = read_dag(command.dag);
  ClusterClient client(client_options(command.access));
  const Submitted submitted = client.submit_dag(nodes);
  write_text(TextStream::kOutput, dag_text(command, submitted, nodes));
  if (!submitted.advice.empty() && command.output == OutputStyle::kTable) {
    write_text(TextStream::kError, submitted.advice + "\n");
  }
  if (!command.wait) return kExitDone;
  std::uint64_t first = submitted.first.value;
  std::uint64_t good = 0;
  for (const DagRequest::Node& node : nodes) {
    good += client.wait({first}, std::chrono::hours(24 * 365)).succeeded;
    first += node.spec.count();
  }
  if (good == submitted.count) return kExitDone;
  if (command.output != OutputStyle::kQuiet) {
    write_text(TextStream::kError, format("{} of {} did not succeed: see 'harmonics tasks'\n",
                                          submitted.count - good, submitted.count));
  }
  return kExitFailed;
}

}  // namespace

int submit(const SubmitCommand& command) {
  if (!command.dag.empty()) return submit_dag(command);
  const TaskSpec spec = task_of(command);
  if (!spec.pipeline && spec.command.empty() && spec.params.empty() &&
      command.output != OutputStyle::kQuiet) {
    write_text(TextStream::kError,
               "no command and no parameters: the task trains the shipped digits model\n");
  }
  LeavingLine leaving;
  std::optional<SignalWatch> watch;  // before the client, which starts threads
  if (command.wait) watch.emplace([&](int signal) { leaving.leave(signal); });
  ClusterClient client(client_options(command.access));
  const Submitted submitted = client.submit(spec);
  leaving.handed_in(submitted.first);
  write_text(TextStream::kOutput, submitted_text(command, submitted));
  if (!submitted.advice.empty() && command.output == OutputStyle::kTable) {
    write_text(TextStream::kError, submitted.advice + "\n");
  }
  return command.wait ? wait_for(command, submitted, client) : kExitDone;
}

}  // namespace harmonics::inline in_cluster_program
