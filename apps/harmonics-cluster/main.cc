// What speaks gRPC: the cluster's server, its workers and its clients. Started by the front with
// its own arguments.
#include <string_view>
#include <variant>

#include <harmonics/base/error.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/server/policy_process.h>

#include "stage_task.h"
#include "subcommands.h"
#include "train_task.h"

namespace harmonics::inline in_cluster_program {
namespace {

constexpr std::string_view kTrainTask = "train-task";
constexpr std::string_view kStageTask = "stage-task";

struct Dispatch {
  int operator()(const ServerCommand& command) const { return server(command); }
  int operator()(const WorkerCommand& command) const { return worker(command); }
  int operator()(const SubmitCommand& command) const { return submit(command); }
  int operator()(const MonitorCommand& command) const { return monitor(command); }
  int operator()(const TasksCommand& command) const { return tasks(command); }
  int operator()(const TaskCommand& command) const { return task(command); }
  int operator()(const LogsCommand& command) const { return logs(command); }
  int operator()(const ArtifactsCommand& command) const { return artifacts(command); }
  int operator()(const ReportCommand& command) const { return report(command); }
  int operator()(const CancelCommand& command) const { return cancel(command); }
  int operator()(const PriorityCommand& command) const { return priority(command); }
  int operator()(const WaitCommand& command) const { return wait(command); }
  int operator()(const WorkersCommand& command) const { return workers(command); }
  int operator()(const DrainCommand& command) const { return drain(command); }
  int operator()(const QuotaCommand& command) const { return quota(command); }
  int operator()(const SimCommand& command) const { return sim(command); }
  int operator()(const AllocCommand& command) const { return alloc(command); }
  int operator()(const UpCommand& command) const { return up(command); }
  template <typename Other>
  int operator()(const Other&) const {
    fail(ErrorCode::kInvalidArgument,
         "harmonics-cluster only knows the cluster's commands; call 'harmonics' instead");
  }
};

int cluster_main(int argc, char** argv) {
  // What a task without a command and a pipeline's stage run; not for people, so they are no
  // subcommands.
  if (argc == 2 && std::string_view(argv[1]) == kTrainTask) return train_task();
  if (argc == 2 && std::string_view(argv[1]) == kStageTask) return stage_task();
  // What a policy library runs in.
  if (argc == 3 && std::string_view(argv[1]) == "policy-host") return serve_policy(argv[2]);
  const auto parsed = parse_command_line(argc, argv);
  if (const UsageAnswer* answer = std::get_if<UsageAnswer>(&parsed)) {
    write_text(answer->exit_code == kExitDone ? TextStream::kOutput : TextStream::kError,
               answer->text);
    return answer->exit_code;
  }
  return std::visit(Dispatch{}, std::get<Command>(parsed));
}

}  // namespace
}  // namespace harmonics::inline in_cluster_program

int main(int argc, char** argv) {
  return harmonics::run_reporting_errors([&] { return harmonics::cluster_main(argc, argv); });
}
