// harmonics train: binds data, lets a graph learn, keeps checkpoints and tells how it went.
#include <chrono>

#include <harmonics/base/clock.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/console/terminal.h>
#include <harmonics/graph/partition.h>
#include <harmonics/options/command_line.h>
#include <harmonics/runtime/cycle_runtime.h>
#include <harmonics/schedule/distributed_scheduler.h>

#include "bound_data.h"
#include "interrupt.h"
#include "subcommands.h"
#include "train_progress.h"
#include "train_report.h"

namespace harmonics {
namespace {

struct Job {
  const TrainCommand& command;
  TrainSettings settings;
  HarmonicGraph graph;
  TrainingData data;
};

RuntimeOptions runtime_options(const Job& job) {
  const TrainSettings& settings = job.settings;
  RuntimeOptions options;
  options.seed = static_cast<std::uint64_t>(settings.seed);
  options.threads = static_cast<int>(settings.threads);
  options.micro_batches = static_cast<int>(settings.micro_batches);
  options.optimizer.kind = optimizer_from_name(settings.optimizer);
  options.optimizer.learning_rate = settings.lr;
  options.optimizer.momentum = settings.momentum;
  options.optimizer.weight_decay = settings.weight_decay;
  options.schedule.kind = schedule_from_name(settings.schedule);
  options.schedule.warmup_steps = settings.warmup;
  options.schedule.every_steps = settings.step_every;
  options.schedule.factor = settings.step_factor;
  options.schedule.total_steps = settings.epochs * job.data.batches_per_epoch;
  options.clip_norm = settings.clip;
  options.precision = precision_from_name(settings.precision);
  options.backend = backend_from_name(settings.backend);
  return options;
}

void notice(const Job& job, const std::string& text) {
  if (job.command.output != OutputStyle::kQuiet) write_text(Stream::kError, text + "\n");
}

Job prepare(const TrainCommand& command) {
  const HarpDocument document = load_harp_document(command.file);
  Job job{command, merge_settings(document, command.file, command.settings), document.graph, {}};
  if (job.graph.taps().empty()) {
    fail(ErrorCode::kFailedPrecondition,
         "the graph of '{}' has nothing to learn from: add a training tap, such as "
         "'output <-(cross_entropy)- label;'",
         command.file.string());
  }
  if (job.settings.patience > 0 && job.settings.test_split == 0) {
    fail(ErrorCode::kInvalidArgument,
         "patience looks at the test loss: hold back some rows with --test-split");
  }
  const auto bindings = merge_bindings(document, command.file, command.bindings);
  const NamedSources sources = open_sources(job.graph, bindings);
  std::vector<std::string> producers;
  for (const ProducerNode& node : job.graph.producers()) producers.push_back(node.name);
  require_sources(job.graph, sources, producers);
  job.graph = resolve_graph(job.graph, sources);
  job.data = make_training_data(sources, job.settings);
  return job;
}

// Puts the runtime where the run begins: at the checkpoint, at given weights, or at the start.
template <typename Runtime>
void restore(Runtime& runtime, const Job& job) {
  const TrainCommand& command = job.command;
  if (!command.checkpoint.empty()) {
    // A run of hours must not end with a place that cannot be written: try it now.
    const AtomicFile trial(command.checkpoint);
  }
  if (command.resume) {
    if (std::filesystem::exists(command.checkpoint)) {
      runtime.load_checkpoint(command.checkpoint);
      return;
    }
    notice(job, format("there is no checkpoint '{}' yet: starting from the beginning",
                       command.checkpoint.string()));
  }
  if (!command.weights.empty()) runtime.load_weights(command.weights);
}

bool is_complete(const TrainingProgress& progress, const TrainSettings& settings) {
  return progress.epochs_done >= settings.epochs ||
         (settings.patience > 0 && progress.epochs_since_best >= settings.patience);
}

// Fills in what fit measured. A run that broke off before a whole epoch tells of the last one
// before it was resumed, or else of its first epoch so far.
void add_measurements(TrainReport& report, const FitReport& fit, const TrainingProgress& progress) {
  report.stopped_early = fit.stopped_early;
  report.interrupted = fit.interrupted;
  report.train_loss = progress.last_train_loss;
  report.train_accuracy = progress.last_train_accuracy;
  report.test = fit.last_epoch.evaluation;
  if (report.train_loss || progress.samples_in_epoch == 0) return;
  const TapReport& taps = progress.taps_in_epoch;
  report.train_loss = taps.loss_sum / static_cast<double>(progress.samples_in_epoch);
  if (taps.judged > 0) {
    report.train_accuracy = static_cast<double>(taps.correct) / static_cast<double>(taps.judged);
  }
}

template <typename Runtime>
void fit(Runtime& runtime, const Job& job, const InterruptWatch& watch, TrainReport& report) {
  const SteadyClock clock;
  const bool shows_progress = job.command.output == OutputStyle::kTable;
  const std::int64_t epochs_done = runtime.progress().epochs_done;
  TrainProgress progress(job.settings.epochs, epochs_done, clock);
  std::int64_t samples = 0;
  FitOptions options;
  options.evaluation = job.data.test;
  options.patience = static_cast<int>(job.settings.patience);
  options.metrics = job.command.metrics;
  options.checkpoint = job.command.checkpoint;
  options.checkpoint_every = job.command.checkpoint_every;
  options.stop = &watch.requested();
  options.on_step = [&](const StepReport& step) {
    samples += step.samples;
    if (shows_progress) progress.on_step(step);
  };
  if (shows_progress)
    options.on_epoch = [&](const EpochReport& epoch) { progress.on_epoch(epoch); };
  const Nanoseconds started = clock.now();
  const FitReport done = runtime.fit(job.settings.epochs - epochs_done, options);
  report.seconds = std::chrono::duration<double>(clock.now() - started).count();
  report.samples_per_second = static_cast<double>(samples) / report.seconds;
  report.steps = done.steps;
  add_measurements(report, done, runtime.progress());
}

void print(const TrainReport& report, OutputStyle style) {
  std::string text;
  switch (style) {
    case OutputStyle::kTable: text = report_text(report, wants_colour(Stream::kOutput)); break;
    case OutputStyle::kJson: text = report_json(report).dump() + "\n"; break;
    case OutputStyle::kQuiet: text = report.weights_digest + "\n"; break;
  }
  write_text(Stream::kOutput, text);
}

template <typename Runtime>
int train_with(Runtime& runtime, const Job& job) {
  for (const auto& [name, producer] : job.data.train) runtime.bindProducer(name, producer);
  restore(runtime, job);
  TrainReport report;
  report.graph = job.graph.name();
  report.parts = job.settings.parts;
  report.seed = job.settings.seed;
  report.checkpoint = job.command.checkpoint.string();
  const InterruptWatch watch;
  if (is_complete(runtime.progress(), job.settings)) {
    report.was_complete = true;
    report.steps = runtime.fit(0).steps;
    report.train_loss = runtime.progress().last_train_loss;
    report.train_accuracy = runtime.progress().last_train_accuracy;
    if (!job.data.test.empty()) report.test = runtime.evaluate(job.data.test);
  } else {
    fit(runtime, job, watch, report);
  }
  report.epochs = runtime.progress().epochs_done;
  report.weights_digest = runtime.weights_digest();
  print(report, job.command.output);
  if (!report.interrupted) return kExitDone;
  notice(job, report.checkpoint.empty()
                  ? "interrupted: nothing was saved (no --checkpoint)"
                  : format("interrupted: '{}' holds the run, --resume goes on", report.checkpoint));
  return watch.exit_code();
}

}  // namespace

int train(const TrainCommand& command) {
  const Job job = prepare(command);
  const RuntimeOptions options = runtime_options(job);
  if (job.settings.parts == 1) {
    CycleRuntime runtime(job.graph, options);
    return train_with(runtime, job);
  }
  const auto parts = static_cast<std::size_t>(job.settings.parts);
  DistributedScheduler scheduler(partition_graph(job.graph, parts), {}, options,
                                 {pipeline_order_from_name(job.settings.pipeline)});
  return train_with(scheduler, job);
}

}  // namespace harmonics
