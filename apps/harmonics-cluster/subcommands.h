// The subcommands of the cluster. They print to standard output, give the exit code, and fail by
// throwing an Error.
#pragma once

#include <harmonics/options/cluster_commands.h>

namespace harmonics::inline in_cluster_program {

int server(const ServerCommand& command);
int worker(const WorkerCommand& command);
int submit(const SubmitCommand& command);
int monitor(const MonitorCommand& command);
int tasks(const TasksCommand& command);
int task(const TaskCommand& command);
int logs(const LogsCommand& command);
int artifacts(const ArtifactsCommand& command);
int report(const ReportCommand& command);
int cancel(const CancelCommand& command);
int priority(const PriorityCommand& command);
int wait(const WaitCommand& command);
int workers(const WorkersCommand& command);
int drain(const DrainCommand& command);
int quota(const QuotaCommand& command);
int sim(const SimCommand& command);
int alloc(const AllocCommand& command);
int up(const UpCommand& command);

}  // namespace harmonics::inline in_cluster_program
