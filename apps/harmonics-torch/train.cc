// harmonics train: binds data, lets a graph learn, keeps checkpoints and tells how it went.
#include <harmonics/graph/partition.h>
#include <harmonics/runtime/cycle_runtime.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/schedule/replica_scheduler.h>

#include "interrupt.h"
#include "progress_pipe.h"
#include "subcommands.h"
#include "train_processes.h"
#include "training_job.h"

namespace harmonics {

namespace {

int train_replicas(const TrainingJob& job, const RuntimeOptions& options,
                   const InterruptWatch& watch, const TrainingListener& listener) {
  ReplicaOptions replicas;
  replicas.replicas = static_cast<std::size_t>(job.settings.replicas);
  replicas.reduction.order = reduction_from_name(job.settings.reduction);
  ReplicaScheduler scheduler(
      partition_graph(job.graph, static_cast<std::size_t>(job.settings.parts)), replicas, options,
      {pipeline_order_from_name(job.settings.pipeline)});
  return finish_job(run_job(scheduler, job, watch, listener), job.command, watch);
}

}  // namespace

int train(const TrainCommand& command) {
  const TrainingJob job = prepare_job(command);
  if (command.processes) return train_in_processes(job);
  const RuntimeOptions options = runtime_options(job);
  const InterruptWatch watch;
  const SteadyClock clock;
  ProgressPipe pipe(job.settings.epochs, clock);
  const TrainingListener listener{[&](const StepReport& step) { pipe.on_step(step); },
                                  [&](const EpochReport& epoch) { pipe.on_epoch(epoch); }};
  if (job.settings.replicas > 1) return train_replicas(job, options, watch, listener);
  if (job.settings.parts == 1) {
    CycleRuntime runtime(job.graph, options);
    return finish_job(run_job(runtime, job, watch, listener), command, watch);
  }
  const auto parts = static_cast<std::size_t>(job.settings.parts);
  DistributedScheduler scheduler(partition_graph(job.graph, parts), {}, options,
                                 {pipeline_order_from_name(job.settings.pipeline)});
  return finish_job(run_job(scheduler, job, watch, listener), command, watch);
}

}  // namespace harmonics
