// harmonics train: binds data, lets a graph learn, keeps checkpoints and tells how it went.
#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/graph/partition.h>
#include <harmonics/place/load_deployment.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/schedule/replica_scheduler.h>

#include "chain_files.h"
#include "deployed_parts.h"
#include "inference/boundary_packing.h"
#include "interrupt.h"
#include "progress_pipe.h"
#include "subcommands.h"
#include "train_processes.h"
#include "training/auto_micro_batches.h"
#include "training_job.h"

namespace harmonics::inline in_torch_program {
namespace {

// The deployment that --deploy names; the parts of its graph then stand in job.settings.
Deployment deployment_of(const TrainingJob& job) {
  const auto given = [&](std::string_view key) {
    return std::ranges::any_of(job.command.settings,
                               [&](const Setting& setting) { return setting.key == key; });
  };
  if (given("parts") || given("backend") || job.settings.replicas > 1 || job.command.processes ||
      !job.command.plan.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "--deploy says how many parts there are and what computes them, in one process: leave out "
         "--parts, --plan, --backend, --replicas and --processes");
  }
  Deployment deployment = load_deployment(job.command.deploy);
  const std::int64_t slices = std::max<std::int64_t>(1, job.settings.micro_batches);
  deployment.limits.micro_batch = (job.settings.batch_size + slices - 1) / slices;
  return deployment;
}

// With several GPUs each replica has one of its own, as far as they go round.
std::vector<DeploymentDescriptor> replica_devices(const RuntimeOptions& options,
                                                  std::size_t replicas, std::int64_t parts) {
  if (resolve_backend(options).backend != Backend::GPU || cuda_device_count() < 2) return {};
  const auto gpus = static_cast<std::size_t>(cuda_device_count());
  std::vector<DeploymentDescriptor> deploy(replicas);
  for (std::size_t i = 0; i < replicas; ++i) {
    PartitionOptions place;
    place.backend = Backend::GPU;
    place.device_index = static_cast<std::uint32_t>(i % gpus);
    deploy[i].backend = Backend::GPU;
    deploy[i].strict = options.strict;
    deploy[i].partitions.assign(static_cast<std::size_t>(parts), place);
  }
  return deploy;
}

PipelineOptions pipeline_options(const TrainingJob& job, std::span<const HarmonicGraph> parts) {
  PipelineOptions options;
  options.order = pipeline_order_from_name(job.settings.pipeline);
  options.packing = packing_of(job.command.bits, parts, job.planned_bits);
  return options;
}

std::unique_ptr<Learner> make_replicas(const TrainingJob& job, const RuntimeOptions& options) {
  ReplicaOptions replicas;
  replicas.replicas = static_cast<std::size_t>(job.settings.replicas);
  replicas.reduction.order = reduction_from_name(job.settings.reduction);
  replicas.deploy = replica_devices(options, replicas.replicas, job.settings.parts);
  const std::vector<HarmonicGraph> parts = parts_of(job);
  return std::make_unique<ReplicaScheduler>(parts, replicas, options, pipeline_options(job, parts));
}

// `parts` is empty where no deployment cut the graph.
std::unique_ptr<Learner> make_learner(const TrainingJob& job, std::vector<HarmonicGraph> parts,
                                      const DeploymentDescriptor& deploy) {
  const RuntimeOptions options = runtime_options(job);
  if (job.settings.replicas > 1) return make_replicas(job, options);
  if (job.settings.parts == 1 && parts.empty()) {
    static_cast<void>(packing_of(job.command.bits, {}));
    return std::make_unique<CycleRuntime>(job.graph, options);
  }
  if (parts.empty()) parts = parts_of(job);
  return std::make_unique<DistributedScheduler>(parts, deploy, options,
                                                pipeline_options(job, parts));
}

// What a plan with stages that hosts take turns at needs.
void check_copies(const TrainingJob& job) {
  const std::vector<PlanStage>& stages = job.plan.stages;
  for (std::size_t part = 0; part < stages.size(); ++part) {
    const std::size_t hosts = stages[part].hosts.size();
    if (hosts == 1) continue;
    if (job.command.secure.mode != SecureMode::kNone || job.settings.replicas > 1) {
      fail(ErrorCode::kUnimplemented,
           "'{}' gives part {} to {}, who take turns at it: that works neither with --secure nor "
           "with --replicas; leave them out, or give each stage one host",
           job.command.plan.string(), part, listed(stages[part].hosts));
    }
    if (job.command.processes) continue;
    notice(job.command,
           format("part {} is planned for {} hosts that take turns ({}): in one process it learns "
                  "once; add --processes",
                  part, hosts, listed(stages[part].hosts)));
  }
}

void check_replicas(const TrainingJob& job) {
  const TrainCommand& command = job.command;
  if (!command.slowdowns.empty() &&
      static_cast<std::int64_t>(command.slowdowns.size()) != job.settings.replicas) {
    fail(ErrorCode::kInvalidArgument, "--slowdown has {} factors for {} replicas: give one each",
         command.slowdowns.size(), job.settings.replicas);
  }
  if (command.elastic && (job.settings.replicas == 1 || job.settings.parts > 1)) {
    fail(
        ErrorCode::kInvalidArgument,
        "--elastic keeps replicas that are whole in one process each: give --replicas N, and leave "
        "out --parts");
  }
  if (command.secure.mode != SecureMode::kNone && job.settings.replicas > 1 &&
      (command.elastic || job.settings.parts > 1)) {
    fail(ErrorCode::kUnimplemented,
         "secure replicas are whole in one process or thread each and stay to the end: leave out "
         "--secure, or --elastic and --parts");
  }
  if (command.elastic && job.settings.shares.find(':') != std::string::npos) {
    fail(
        ErrorCode::kInvalidArgument,
        "--elastic says itself from which step on shares change: give shares such as 3,1, or auto");
  }
  if (command.processes && job.settings.parts > 1 && job.settings.shares == "auto") {
    fail(ErrorCode::kUnimplemented,
         "shares auto take replicas that are whole in one process: leave out --parts, or give "
         "shares such as 3,1");
  }
}

int train_watched(const TrainCommand& command, InterruptWatch& watch) {
  TrainingJob job = prepare_job(command);
  Deployment deployment;
  std::vector<HarmonicGraph> parts;
  if (!command.deploy.empty()) {
    deployment = deployment_of(job);
    parts = deployed_parts(job.graph, deployment);
    job.settings.parts = static_cast<std::int64_t>(parts.size());
  }
  if (command.keeps_checkpoints && (command.processes || command.checkpoint_every == 0)) {
    fail(ErrorCode::kUnimplemented,
         "--keep-checkpoints keeps those of --checkpoint-every of a run in one process: give "
         "--checkpoint-every N, and leave out --processes");
  }
  check_replicas(job);
  check_copies(job);
  if (!command.resume && std::filesystem::exists(command.checkpoint)) {
    notice(command,
           format("'{}' is of an earlier run and will be replaced: --resume goes on from it",
                  command.checkpoint.string()));
  }
  watch.check("no step was computed, nothing was written");
  settle_micro_batches(
      job,
      [&](const TrainingJob& trial) { return make_learner(trial, parts, deployment.descriptor); },
      watch);
  if (command.processes) return train_in_processes(job, watch);
  const SteadyClock clock;
  ProgressPipe pipe({job.settings.epochs, job.settings.micro_batches}, clock);
  const TrainingListener listener{[&](const StepReport& step) {
                                    watch.step_done();
                                    pipe.on_step(step);
                                  },
                                  [&](const EpochReport& epoch) { pipe.on_epoch(epoch); }};
  const bool signs_replicas = job.settings.replicas > 1 && !command.secure.proof.empty();
  const auto replicas = static_cast<std::size_t>(job.settings.replicas);
  if (signs_replicas) begin_replica_chains(command, replicas);
  const auto learner = make_learner(job, std::move(parts), deployment.descriptor);
  const TrainReport report = run_job(*learner, job, watch, listener);
  if (signs_replicas) join_chains(command.secure.proof, replicas);
  return finish_job(report, command, watch);
}

}  // namespace

int train(const TrainCommand& command) {
  InterruptWatch watch(command.output != OutputStyle::kQuiet);
  return run_interruptible(watch, [&] { return train_watched(command, watch); });
}

}  // namespace harmonics::inline in_torch_program
