// harmonics stage: one part of a run in this process, the other parts in others.
#include <chrono>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/custody/chain.h>
#include <harmonics/options/command_line.h>
#include <harmonics/schedule/checkpoint.h>
#include <harmonics/schedule/remote_scheduler.h>

#include "checkpoint_stamp.h"
#include "child_process.h"
#include "elastic/piped_company.h"
#include "inference/stage_infer.h"
#include "progress_pipe.h"
#include "stage_events.h"
#include "stage_meetings.h"
#include "subcommands.h"
#include "training_job.h"

namespace harmonics::inline in_torch_program {
namespace {

Nanoseconds seconds(std::int64_t count) { return std::chrono::seconds(count); }

ReductionOptions reduction_options(const StageCommand& command, const TrainingJob& job) {
  ReductionOptions reduction;
  reduction.order = reduction_from_name(job.settings.reduction);
  reduction.first_contact = seconds(command.first_contact_s);
  reduction.deadline = seconds(command.deadline_s);
  return reduction;
}

// Where this part meets its copies, if it has any.
void join_replicas(RemoteScheduler& scheduler, const StageCommand& command, const TrainingJob& job,
                   const TransportOptions& transport) {
  if (command.replica_places.empty()) return;
  std::vector<RemoteBinding> places;
  for (const std::string& url : command.replica_places) places.push_back(parse_binding(url));
  const ReductionOptions reduction = reduction_options(command, job);
  scheduler.join_replicas(
      make_remote_ends(reduction.order, static_cast<std::size_t>(command.replica), places,
                       format("replicas/part{}", command.part), transport),
      reduction);
}

// The same where whoever started this replica keeps it. Returns what it has to be introduced to.
PipedCompany* join_company(RemoteScheduler& scheduler, const StageCommand& command,
                           const TrainingJob& job, const TransportOptions& transport,
                           StageEvents& events) {
  if (!has_keeper()) return nullptr;
  CompanyTerms terms;
  terms.number = static_cast<std::size_t>(command.replica);
  terms.replicas = static_cast<std::size_t>(job.settings.replicas);
  terms.order = reduction_from_name(job.settings.reduction);
  terms.name = "replicas";
  terms.transport = transport;
  auto company = std::make_unique<PipedCompany>(std::move(terms), events);
  PipedCompany* const known = company.get();
  scheduler.join_company(std::move(company), reduction_options(command, job));
  return known;
}

void check(const StageCommand& command, const TrainingJob& job) {
  if (has_keeper()) return;  // who knows what it does
  const auto places = static_cast<std::int64_t>(command.replica_places.size());
  if (command.replica >= job.settings.replicas ||
      places != (job.settings.replicas == 1 ? 0 : job.settings.replicas)) {
    fail(ErrorCode::kInvalidArgument,
         "replica {} of {} with {} places: give --replicas N, --replica from 0 to N - 1, and "
         "--replica-place for each of them",
         command.replica, job.settings.replicas, places);
  }
  if (job.settings.replicas > 1 && job.copies.any()) {
    fail(
        ErrorCode::kUnimplemented,
        "hosts that take turns at a stage have no replicas: plan without --replicate, or leave out "
        "--replicas");
  }
  if (job.settings.schedule == "cosine" && job.data.batches_per_epoch == 0) {
    fail(ErrorCode::kInvalidArgument,
         "part {} has no data of its own, so that it cannot know how long the schedule cosine is: "
         "give --batches-per-epoch N",
         command.part);
  }
}

// Tells whoever started this part, and whoever supervises it.
TrainingListener both(TrainingListener listener, ProgressPipe& pipe, InterruptWatch& watch) {
  return {[listener, &pipe, &watch](const StepReport& step) {
            watch.step_done();
            if (listener.on_step) listener.on_step(step);
            pipe.on_step(step);
          },
          [listener, &pipe](const EpochReport& epoch) {
            if (listener.on_epoch) listener.on_epoch(epoch);
            pipe.on_epoch(epoch);
          }};
}

// A replica that is kept begins where the others are.
TrainingListener introduced(TrainingListener listener, PipedCompany* company) {
  if (company == nullptr) return listener;
  listener.on_restored = [company](Learner& learner) {
    const auto steps = learner.trainer().row().state().steps;
    const auto state = company->introduce(static_cast<std::uint64_t>(steps));
    if (!state.empty()) learner.load_checkpoint(state);
  };
  return listener;
}

// Runs the part from the last checkpoint as often as other parts go away, up to the limit.
TrainReport run_part(const StageCommand& command, const TrainCommand& first, InterruptWatch& watch,
                     StageEvents& events) {
  TrainCommand training = first;
  training.saves = command.replica == 0 || has_keeper();
  const CheckpointStamp before(training.checkpoint);
  for (std::int64_t restart = 0;; ++restart) {
    HarmonicGraph part;
    const TrainingJob job = prepare_part_job(command, training, part);
    check(command, job);
    const Meetings meetings =
        command.hosts.empty()
            ? meetings_of(command, part, job.copies)
            : meetings_of(with_host_places(command, part, job.plan, job.copies), part, job.copies);
    watch.check("no other part was met, nothing was written");
    try {
      RemoteOptions options = remote_options(command, runtime_options(job), watch);
      options.pipeline.order = pipeline_order_from_name(job.settings.pipeline);
      options.pipeline.packing = job.packing;
      options.copies = job.copies;
      if (restart == 0 && !events.wanted()) notice(training, waiting_text(command, meetings));
      RemoteScheduler scheduler(part, meetings.entering, meetings.leaving,
                                part_deployment(command, job.settings), options);
      join_replicas(scheduler, command, job, options.transport);
      PipedCompany* const company =
          join_company(scheduler, command, job, options.transport, events);
      const SteadyClock clock;
      ProgressPipe pipe({job.settings.epochs, job.settings.micro_batches,
                         [&scheduler] { return scheduler.waited(); }},
                        clock);
      const TrainingListener listener = introduced(both(events.listener(), pipe, watch), company);
      TrainReport report = run_job(scheduler, job, watch, listener);
      if (command.whole_digest) {
        report.weights_digest = weights_digest(checkpoint_weights(training.checkpoint));
      } else if (job.settings.parts > 1) {
        report.digest_part = command.part;
      }
      return report;
    } catch (const Error& error) {
      if (!lost_others(error) || restart >= training.restarts || watch.requested()) throw;
      training.resume = first.resume || before.has_changed();
      if (!training.resume) set_chain_aside(training.secure.proof);
      notice(training,
             format("{}\nanother part went away: part {} goes back to {} and waits for it (restart "
                    "{} of {})",
                    error.what(), command.part,
                    training.resume ? "the last checkpoint" : "the beginning", restart + 1,
                    training.restarts));
    }
  }
}

// Without others, or while they do not answer, a signal is all that ends a part.
bool ended_by_signal(const Error& error, const InterruptWatch& watch) {
  return watch.requested() && (lost_others(error) || error.code() == ErrorCode::kDeadlineExceeded);
}

int run_watched(const StageCommand& command, InterruptWatch& watch) {
  StageEvents events;
  if (command.infer) return infer_part(command, watch, events);
  try {
    const TrainReport report = run_part(command, command.training, watch, events);
    events.tell(report);
    return finish_job(report, command.training, watch);
  } catch (const Error& error) {
    if (ended_by_signal(error, watch)) throw Error(ErrorCode::kCancelled, error.what());
    // Who started this part looks for the one that failed first.
    if (events.wanted() && lost_others(error)) {
      notice(command.training, format("harmonics: {}", error.what()));
      return kExitLostOthers;
    }
    throw;
  }
}

}  // namespace

int stage(const StageCommand& command) {
  die_with_parent();
  InterruptWatch watch(command.training.output != OutputStyle::kQuiet);
  return run_interruptible(watch, [&] { return run_watched(command, watch); });
}

}  // namespace harmonics::inline in_torch_program
