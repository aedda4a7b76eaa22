#include "training_job.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <harmonics/base/clock.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/console/terminal.h>
#include <harmonics/custody/chain.h>
#include <harmonics/graph/partition.h>
#include <harmonics/options/command_line.h>
#include <harmonics/options/graph_argument.h>
#include <harmonics/place/plan_partition.h>
#include <harmonics/plan/plan_file.h>
#include <harmonics/runtime/train_options.h>

#include "inference/boundary_packing.h"
#include "inference/stage_copies.h"
#include "resumed_settings.h"
#include "train_progress.h"

namespace harmonics::inline in_torch_program {
namespace {

void check_shares(const TrainSettings& settings) {
  const BatchShares shares = BatchShares::parse(settings.shares);
  if (shares.are_measured() && settings.replicas == 1) {
    fail(ErrorCode::kInvalidArgument,
         "shares auto follow the rates of replicas: give --replicas N, or shares such as 3,1");
  }
  if (shares.are_given() && settings.replicas > 1 &&
      static_cast<std::int64_t>(shares.count()) != settings.replicas) {
    fail(ErrorCode::kInvalidArgument, "shares {} are for {} replicas, there are {}: give one each",
         settings.shares, shares.count(), settings.replicas);
  }
}

// How batches were dealt out to replicas, or cut by one process.
std::string dealt_shares(const Learner& learner, const TrainSettings& settings) {
  const BatchShares* const dealt = learner.trainer().row().runner().dealt();
  return dealt == nullptr ? settings.shares : dealt->text();
}

// Where the parts are cut.
void take_plan(TrainingJob& job, const std::filesystem::path& path) {
  if (path.empty()) return;
  const std::string name = path.string();
  PlanFile file = parse_plan_file(read_text_file(path, kMaxPlannerFileBytes), name);
  if (!file.model.empty() && file.model != job.graph.name() &&
      file.model != published_name(job.graph.name())) {
    fail(ErrorCode::kFailedPrecondition,
         "'{}' is a plan for model '{}', '{}' holds '{}': plan this model with 'harmonics plan'",
         name, file.model, job.command.file.string(), job.graph.name());
  }
  job.plan = std::move(file.plan);
  job.planned_bits = std::move(file.boundary_bits);
  job.planned_rows = file.batch_size;
  job.settings.parts = static_cast<std::int64_t>(job.plan.stages.size());
}

TrainingJob start_job(const TrainCommand& command, const HarpDocument& document) {
  TrainingJob job{command,
                  merge_settings(document, command.file, command.settings),
                  document.graph.with_fixed_axes(command.axes),
                  {},
                  {}};
  job.command.weights = merge_weights(document, command.file, command.weights);
  std::vector<std::string> said;
  job.resumed = take_resumed_settings(command, document, job.settings, said);
  for (const std::string& line : said) notice(command, line);
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
  check_shares(job.settings);
  take_plan(job, command.plan);
  return job;
}

// A cosine ends with the run: more epochs, or more data, make it another one.
void say_another_length(const TrainingJob& job) {
  if (!job.resumed || job.settings.schedule != "cosine") return;
  const std::int64_t before = job.resumed->schedule.total_steps;
  const std::int64_t now = job.settings.epochs * job.data.batches_per_epoch;
  if (before == 0 || now == 0 || before == now) return;
  notice(job.command, format("the schedule cosine now ends at step {}; '{}' was trained towards {}",
                             now, job.command.checkpoint.string(), before));
}

// A plan for other slices than the run has still runs.
void say_other_slices(const TrainingJob& job) {
  const std::int64_t slices = job.settings.micro_batches;
  if (job.planned_rows == 0 || slices == kAutoMicroBatches) return;
  const std::int64_t rows = (job.settings.batch_size + slices - 1) / slices;
  if (rows == job.planned_rows) return;
  notice(job.command, format("'{}' was planned for {} rows at a time, micro-batches of this run "
                             "have {}: it is cut as planned, but the plan's times do not hold",
                             job.command.plan.string(), job.planned_rows, rows));
}

std::vector<std::string> producer_names(const HarmonicGraph& graph) {
  std::vector<std::string> names;
  for (const ProducerNode& node : graph.producers()) {
    if (!is_boundary_name(node.name)) names.push_back(node.name);
  }
  return names;
}

// Puts the learner where the run begins: at the checkpoint, at given weights, or at the start.
// Parts in other processes ask each other what they can go on from, also those that want to begin.
void restore(Learner& learner, const TrainCommand& command) {
  if (!command.checkpoint.empty()) {
    // A run of hours must not end with a place that cannot be written: try it now.
    const AtomicFile trial(command.checkpoint);
  }
  if (learner.resume(command.resume ? command.checkpoint : std::filesystem::path())) return;
  if (command.resume) {
    notice(command, format("there is no checkpoint '{}' yet: starting from the beginning",
                           command.checkpoint.string()));
    set_chain_aside(command.secure.proof);
  }
  if (!command.weights.empty()) learner.load_weights(command.weights);
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

FitOptions fit_options(const TrainingJob& job, const InterruptWatch& watch) {
  FitOptions options;
  options.evaluation = job.data.test;
  options.patience = static_cast<int>(job.settings.patience);
  options.metrics = job.command.metrics;
  if (job.command.saves) options.checkpoint = job.command.checkpoint;
  options.checkpoint_every = job.command.checkpoint_every;
  options.checkpoint_every_epochs = job.command.checkpoint_every_epochs;
  options.keeps_checkpoints = job.command.keeps_checkpoints;
  options.stop = &watch.requested();
  return options;
}

void fit(Learner& learner, const TrainingJob& job, FitOptions options,
         const TrainingListener& listener, TrainReport& report) {
  const SteadyClock clock;
  const bool shows_progress = job.command.output == OutputStyle::kTable;
  const std::int64_t epochs_done = learner.progress().epochs_done;
  TrainProgress progress(job.settings.epochs, epochs_done, clock);
  std::int64_t samples = 0;
  options.on_step = [&](const StepReport& step) {
    samples += step.samples;
    if (shows_progress) progress.on_step(step);
    if (listener.on_step) listener.on_step(step);
  };
  options.on_epoch = [&](const EpochReport& epoch) {
    if (shows_progress) progress.on_epoch(epoch);
    if (listener.on_epoch) listener.on_epoch(epoch);
  };
  const Nanoseconds started = clock.now();
  const FitReport done = learner.fit(job.settings.epochs - epochs_done, options);
  report.seconds = in_seconds(clock.now() - started);
  report.samples_per_second = static_cast<double>(samples) / report.seconds;
  report.steps = done.steps;
  add_measurements(report, done, learner.progress());
}

}  // namespace

void notice(const TrainCommand& command, const std::string& text) {
  if (command.output == OutputStyle::kQuiet || text.empty()) return;
  write_text(TextStream::kError, text + "\n");
}

TrainingJob prepare_job(const TrainCommand& command) {
  const HarpDocument document = open_graph_document(command.file);
  TrainingJob job = start_job(command, document);
  const auto bindings = merge_bindings(document, command.file, command.bindings);
  const NamedSources sources = open_sources(job.graph, bindings);
  require_sources(job.graph, sources, producer_names(job.graph));
  job.graph = resolve_graph(job.graph, sources);
  job.data = make_training_data(job.graph, with_checked_labels(job.graph, sources), job.settings);
  say_another_length(job);
  say_other_slices(job);
  return job;
}

TrainingJob prepare_part_job(const StageCommand& stage, const TrainCommand& command,
                             HarmonicGraph& part) {
  const HarpDocument document = open_graph_document(command.file);
  TrainingJob job = start_job(command, document);
  if (job.settings.micro_batches == kAutoMicroBatches) {
    fail(ErrorCode::kInvalidArgument,
         "micro-batches auto: all parts must cut a batch alike, and a part alone cannot measure "
         "it; give a number, such as 'harmonics train --micro-batches auto' says");
  }
  const std::int64_t count = job.settings.parts;
  if (stage.part >= count) {
    fail(ErrorCode::kInvalidArgument, "--part {}: with --parts {} the parts are 0 to {}",
         stage.part, count, count - 1);
  }
  std::vector<SourceBinding> bindings = merge_bindings(document, command.file, command.bindings);
  const auto open = [&](const std::vector<std::string>& names) {
    std::vector<SourceBinding> wanted;
    for (const SourceBinding& binding : bindings) {
      if (std::ranges::find(names, binding.name) != names.end()) wanted.push_back(binding);
    }
    const NamedSources sources = open_sources(job.graph, wanted);
    require_sources(job.graph, sources, names);
    return sources;
  };
  const std::vector<std::string> unresolved = job.graph.unresolved();
  if (!unresolved.empty()) job.graph = resolve_graph(job.graph, open(unresolved));
  const std::vector<HarmonicGraph> parts = parts_of(job);
  part = parts.at(static_cast<std::size_t>(stage.part));
  job.packing = packing_of(command.bits, parts, job.planned_bits);
  job.copies = copies_of(job.plan, parts, seat_of(stage, job.plan));
  job.copies.learns = true;
  job.data = make_training_data(
      job.graph, with_checked_labels(job.graph, open(producer_names(part))), job.settings);
  if (job.data.batches_per_epoch == 0) job.data.batches_per_epoch = stage.batches_per_epoch;
  if (job.data.batches_per_epoch == 0 && job.settings.schedule == "cosine" && !bindings.empty()) {
    // The data of another part tells how long the schedule is, where this machine has it.
    job.data.batches_per_epoch =
        make_training_data(job.graph, open({bindings.front().name}), job.settings)
            .batches_per_epoch;
  }
  say_another_length(job);
  return job;
}

std::vector<HarmonicGraph> parts_of(const TrainingJob& job) {
  if (job.plan.stages.empty()) {
    return partition_graph(job.graph, static_cast<std::size_t>(job.settings.parts));
  }
  try {
    return partition_graph(job.graph, job.plan);
  } catch (const Error& error) {
    fail(error.code(), "'{}': {}", job.command.plan.string(), std::string_view(error.what()));
  }
}

RuntimeOptions runtime_options(const TrainingJob& job) {
  RuntimeOptions options = runtime_options(job.settings);
  options.schedule.total_steps = job.settings.epochs * job.data.batches_per_epoch;
  options.data = learning_settings(job.settings).data;
  options.on_load = SettingsOnLoad::kKeep;  // start_job has compared them
  if (job.resumed) {
    // What has no flag.
    options.schedule.floor = job.resumed->schedule.floor;
  }
  options.secure = secure_options(job.command.secure);
  options.secure.sets_aside = job.command.resume;
  return options;
}

SecureOptions secure_options(const SecureFlags& flags) {
  SecureOptions secure;
  secure.on = flags.mode != SecureMode::kNone;
  secure.key = flags.key;
  secure.keys = flags.keys;
  secure.chain = flags.proof;
  secure.weights_every = flags.weights_every;
  secure.layers = flags.layers;
  return secure;
}

TrainReport run_job(Learner& learner, const TrainingJob& job, const InterruptWatch& watch,
                    const TrainingListener& listener) {
  for (const auto& [name, producer] : job.data.train) learner.bindProducer(name, producer);
  restore(learner, job.command);
  if (listener.on_restored) listener.on_restored(learner);
  TrainReport report;
  report.graph = job.graph.name();
  report.parts = job.settings.parts;
  report.replicas = job.settings.replicas;
  report.micro_batches = job.settings.micro_batches;
  report.seed = job.settings.seed;
  report.checkpoint = job.command.checkpoint.string();
  if (is_complete(learner.progress(), job.settings)) {
    report.was_complete = true;
    report.steps = learner.fit(0).steps;
    report.train_loss = learner.progress().last_train_loss;
    report.train_accuracy = learner.progress().last_train_accuracy;
    // A part without data of its own takes part in the evaluation too.
    if (job.settings.test_split > 0) report.test = learner.evaluate(job.data.test);
  } else {
    fit(learner, job, fit_options(job, watch), listener, report);
  }
  report.epochs = learner.progress().epochs_done;
  report.shares = dealt_shares(learner, job.settings);
  report.weights_digest = learner.weights_digest();
  learner.close();
  report.proof = learner.proof();
  report.chain = job.command.secure.proof.string();
  return report;
}

int finish_job(const TrainReport& report, const TrainCommand& command,
               const InterruptWatch& watch) {
  std::string text;
  switch (command.output) {
    case OutputStyle::kTable: text = report_text(report, wants_colour(TextStream::kOutput)); break;
    case OutputStyle::kJson: text = report_json(report).dump() + "\n"; break;
    case OutputStyle::kQuiet: text = report.weights_digest + "\n"; break;
  }
  write_text(TextStream::kOutput, text);
  if (report.test && !std::isfinite(report.test->loss)) {
    notice(command,
           "the test loss is not finite: the rows that are held back hold NaN, or the weights have "
           "grown beyond bounds");
  }
  if (!report.interrupted) return kExitDone;
  notice(command,
         report.checkpoint.empty()
             ? "interrupted: nothing was saved (no --checkpoint)"
             : format("interrupted: '{}' holds the run, --resume goes on", report.checkpoint));
  return watch.exit_code();
}

}  // namespace harmonics::inline in_torch_program
