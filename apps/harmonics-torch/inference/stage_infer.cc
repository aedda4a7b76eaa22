#include "stage_infer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/console/terminal.h>
#include <harmonics/custody/chain.h>
#include <harmonics/options/command_line.h>
#include <harmonics/schedule/remote_scheduler.h>

#include "inference_job.h"
#include "progress_pipe.h"
#include "request_feed.h"
#include "results_channel.h"
#include "run_outputs.h"
#include "run_report.h"
#include "run_stream.h"
#include "stage_copies.h"
#include "stage_meetings.h"
#include "subcommands.h"
#include "training_job.h"

namespace harmonics::inline in_torch_program {
namespace {

// A part that takes longer than the deadline may hang: that too is worth another attempt.
bool is_worth_another(const Error& error) {
  return lost_others(error) || error.code() == ErrorCode::kDeadlineExceeded;
}

/// One part, its data and where its outputs go; kept over restarts.
class PartInference {
 public:
  PartInference(const StageCommand& command, InterruptWatch& watch)
      : command_(command),
        watch_(watch),
        job_(prepare_part_inference(command)),
        seat_(seat_of(command, job_.plan.plan)),
        copies_(copies_of(job_, seat_)),
        part_(job_.parts[seat_.part]),
        meetings_(command.hosts.empty()
                      ? meetings_of(command, part_, copies_)
                      : meetings_of(with_host_places(command, part_, job_.plan.plan, copies_),
                                    part_, copies_)),
        tally_(job_, open_outputs(part_, command.outputs, {command.kept, command.delivered}),
               watch),
        delivered_(command.delivered) {
    check_outputs();
    // Of those that come here at all.
    const double share = copies_.turns.share_of(seat_.copy);
    const auto own = [&](std::int64_t rows) {
      return static_cast<std::int64_t>(std::llround(share * static_cast<double>(rows)));
    };
    told_.all = own(job_.rows());
    told_.before = own(command.delivered * job_.settings.batch_size);
    if (told_.all > 0) told_.before = std::min(told_.before, told_.all);
  }

  [[nodiscard]] std::string waiting() const { return waiting_text(command_, meetings_); }
  /// What came out until the data ended.
  RunReport run();

 private:
  void check_outputs() const;
  [[nodiscard]] StreamReport attempt();
  void say_again(const Error& error, std::int64_t restart) const;
  [[noreturn]] void end_early() const;

  const StageCommand& command_;
  InterruptWatch& watch_;
  const InferenceJob job_;
  const Seat seat_;
  const PartCopies copies_;
  const HarmonicGraph& part_;
  const Meetings meetings_;
  RunTally tally_;
  ProgressPipe::Rows told_;
  std::int64_t delivered_;  // the batches before this one are out
  std::string proof_;
};

void PartInference::check_outputs() const {
  if (command_.outputs.empty() || copies_.turns.copies() == 1) return;
  fail(ErrorCode::kInvalidArgument,
       "--out {}: the rows of part {} come out of {} hosts in turn, so that none has them all: "
       "use 'harmonics run --processes', or plan the last stage for one host",
       command_.outputs.front().name, seat_.part, copies_.turns.copies());
}

StreamReport PartInference::attempt() {
  RemoteOptions remote = remote_options(command_, inference_options(job_), watch_);
  remote.transport.needs_secret = true;
  remote.pipeline.packing = job_.packing;
  remote.copies = copies_;
  std::unique_ptr<ResultsSender> results;
  if (!command_.results.empty()) {
    results = std::make_unique<ResultsSender>(
        part_, make_transport(parse_binding(command_.results), remote.transport),
        remote.pipeline.deadline);
  }
  RemoteScheduler scheduler(part_, meetings_.entering, meetings_.leaving,
                            part_deployment(command_, job_.settings), remote);
  if (!job_.command.weights.empty() && job_.proofs == nullptr) {
    scheduler.load_weights(job_.command.weights);
  }
  StreamOptions options;
  options.in_flight = static_cast<std::size_t>(job_.command.in_flight);
  options.probe_carriers = !job_.plan.costs.empty();
  options.measure = job_.measured;
  options.delivered = delivered_;
  options.stop = &watch_.requested();
  const SteadyClock clock;
  ProgressPipe pipe({0, 1, [&scheduler] { return scheduler.waited(); }}, clock);
  options.on_batch = [&](const StreamedBatch& batch) {
    if (results) results->send(batch);
    tally_.add(batch);
    told_.batch = batch.rows;
    told_.done += batch.rows;
    pipe.on_rows(told_);
    delivered_ = batch.number + 1;
  };
  NamedProducers producers = job_.producers;
  if (!command_.feed.empty()) {
    producers = fed_producers(part_, make_transport(parse_binding(command_.feed), remote.transport),
                              remote.pipeline.deadline);
  }
  StreamReport report = scheduler.stream(producers, tally_.consumers(), options);
  pipe.on_last_rows(told_);
  if (results && !report.interrupted) results->close();
  scheduler.close();
  proof_ = scheduler.proof();
  return report;
}

void PartInference::say_again(const Error& error, std::int64_t restart) const {
  notice(
      command_.training,
      format("{}\nanother part went away: part {} goes on from batch {} when it is back (restart "
             "{} of {})",
             error.what(), command_.part, delivered_, restart, command_.training.restarts));
}

// Rows that are missing are no result: nothing is written.
void PartInference::end_early() const {
  tally_.check_interrupt();
  fail(ErrorCode::kFailedPrecondition,
       "another part was asked to end after {} batches; no output was written", delivered_);
}

RunReport PartInference::run() {
  for (std::int64_t restart = 0;; ++restart) {
    watch_.check("no other part was met, nothing was written");
    try {
      StreamReport streamed = attempt();
      if (streamed.interrupted) end_early();
      RunReport report = tally_.report();
      // Of rows that another process has seen nothing is known here.
      if (!command_.kept.empty() && command_.delivered > 0) report.loss = report.accuracy = {};
      for (PartFlow& flow : streamed.parts) {
        report.stages.push_back(job_.staged(seat_.part, std::move(flow)));
        name_copy(report.stages.back(), job_, seat_);
      }
      report.restarts = restart;
      report.proof = proof_;
      report.chain = job_.command.secure.proof.string();
      return report;
    } catch (const Error& error) {
      if (!is_worth_another(error) || restart >= command_.training.restarts || watch_.requested()) {
        throw;
      }
      tally_.clear();
      set_chain_aside(job_.command.secure.proof);  // its other ends begin new ones too
      say_again(error, restart + 1);
    }
  }
}

}  // namespace

int infer_part(const StageCommand& command, InterruptWatch& watch, StageEvents& events) {
  try {
    PartInference part(command, watch);
    if (!events.wanted()) notice(command.training, part.waiting());
    const RunReport report = part.run();
    events.tell_line(Json()
                         .set("event", "streamed")
                         .set("stage", flow_json(report.stages.front()))
                         .set("proof", report.proof)
                         .dump());
    print_report(report, command.training.output);
    return kExitDone;
  } catch (const Error& error) {
    if (watch.requested() && is_worth_another(error)) {
      throw Error(ErrorCode::kCancelled, error.what());
    }
    // Who started this part looks for the one that failed first.
    if (events.wanted() && is_worth_another(error)) {
      notice(command.training, format("harmonics: {}", error.what()));
      return kExitLostOthers;
    }
    throw;
  }
}

}  // namespace harmonics::inline in_torch_program
