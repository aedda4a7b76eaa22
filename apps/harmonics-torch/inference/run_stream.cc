#include "run_stream.h"

#include <memory>
#include <utility>

#include <harmonics/base/clock.h>
#include <harmonics/base/format.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/schedule/distributed_scheduler.h>

#include "run_outputs.h"
#include "run_progress.h"

namespace harmonics::inline in_torch_program {

struct RunTally::State {
  State(std::int64_t rows, bool shows) : progress(rows, shows, clock), started(clock.now()) {}

  const SteadyClock clock;
  RunProgress progress;
  const Nanoseconds started;
  RunReport report;
  TapReport taps;
};

RunTally::RunTally(const InferenceJob& job, NamedConsumers consumers, InterruptWatch& watch)
    : job_(job),
      consumers_(std::move(consumers)),
      watch_(watch),
      state_(std::make_unique<State>(
          job.rows(), job.command.output == OutputStyle::kTable && !job.command.serve.on())) {}
RunTally::~RunTally() = default;

void RunTally::add(const StreamedBatch& batch) {
  RunReport& report = state_->report;
  if (job_.command.processes) {
    const double passed = in_seconds(state_->clock.now() - state_->started);
    if (delivered_ == 0) {
      report.starting = passed;
      report.starting_rows = batch.rows;
    }
    report.streaming = passed - report.starting;
  }
  ++delivered_;
  report.add_rows(batch.outputs, batch.rows);
  if (job_.measured) state_->taps += batch.taps;
  state_->progress.on_rows(batch.rows);
  watch_.step_done();
}

void RunTally::check_interrupt() const {
  watch_.check(format("after {} rows; no output was written", state_->report.rows));
}

void RunTally::clear() { state_->progress.clear(); }

RunReport RunTally::report() {
  clear();
  RunReport report = std::move(state_->report);
  report.graph = job_.graph.name();
  if (!job_.plan.costs.empty()) {
    report.plan = {job_.plan.model, job_.plan.dtype, job_.plan.batch_size};
  }
  report.seconds = in_seconds(state_->clock.now() - state_->started);
  const TapReport& taps = state_->taps;
  if (job_.measured && report.rows > 0 && taps.loss_sum != 0) {
    report.loss = taps.loss_sum / static_cast<double>(report.rows);
  }
  if (taps.judged > 0) {
    report.accuracy = static_cast<double>(taps.correct) / static_cast<double>(taps.judged);
  }
  for (const Binding& output : job_.command.outputs) {
    report.files[output.name] = output_path(output);
  }
  return report;
}

std::unique_ptr<Learner> inference_learner(const InferenceJob& job) {
  RuntimeOptions options = inference_options(job);
  for (std::size_t part = 0; !job.command.trace.empty() && part < job.parts.size(); ++part) {
    options.pass_traces[job.parts[part].name()] = pass_trace_file(job, part);
  }
  if (job.parts.size() == 1 && !options.secure.on && job.command.deploy.empty()) {
    if (!job.command.trace.empty()) {
      options.pass_traces[job.graph.name()] = pass_trace_file(job, 0);
    }
    return std::make_unique<CycleRuntime>(job.graph, options);
  }
  PipelineOptions pipeline;
  pipeline.deadline = std::chrono::seconds(job.command.deadline_s);
  pipeline.packing = job.packing;
  return std::make_unique<DistributedScheduler>(job.parts, job.deploy, options, pipeline);
}

std::filesystem::path pass_trace_file(const InferenceJob& job, std::size_t part,
                                      std::optional<std::size_t> copy) {
  return job.command.trace /
         (copy ? format("passes-{}-{}.jsonl", part, *copy) : format("passes-{}.jsonl", part));
}

RunReport run_here(const InferenceJob& job, InterruptWatch& watch) {
  const std::unique_ptr<Learner> learner = inference_learner(job);
  if (!job.command.weights.empty() && job.proofs == nullptr) {
    learner->load_weights(job.command.weights);
  }
  RunTally tally(job, open_outputs(job.graph, job.command.outputs), watch);
  StreamOptions options;
  options.in_flight = static_cast<std::size_t>(job.command.in_flight);
  options.measure = job.measured;
  options.on_batch = [&](const StreamedBatch& batch) { tally.add(batch); };
  options.stop = &watch.requested();
  const StreamReport streamed = learner->stream(job.producers, tally.consumers(), options);
  tally.check_interrupt();
  RunReport report = tally.report();
  for (std::size_t part = 0; part < streamed.parts.size(); ++part) {
    report.stages.push_back(job.staged(part, streamed.parts[part]));
  }
  learner->close();
  report.proof = learner->proof();
  report.chain = job.command.secure.proof.string();
  return report;
}

}  // namespace harmonics::inline in_torch_program
