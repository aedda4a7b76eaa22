#include <harmonics/schedule/trainer.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/log.h>

#include "metrics.h"

namespace harmonics::inline in_schedule {
namespace {

std::optional<double> mean_loss(const TapReport& taps, std::int64_t samples) {
  if (samples == 0) return std::nullopt;
  return taps.loss_sum / static_cast<double>(samples);
}

std::optional<double> accuracy(const TapReport& taps) {
  if (taps.judged == 0) return std::nullopt;
  return static_cast<double>(taps.correct) / static_cast<double>(taps.judged);
}

}  // namespace

namespace {

// A tensor of data, viewed as the producer is declared.
Tensor as_declared(const ProducerNode& node, const Tensor& tensor, bool batched) {
  const Shape& given = tensor.shape();
  const Shape sample(given.begin() + (batched ? 1 : 0), given.end());
  Shape shape = sample_view(node, sample).value_or(*node.shape);
  shape.insert(shape.begin(), batched ? given.at(0) : 1);
  return tensor.reshaped(std::move(shape));
}

}  // namespace

const ProducerNode& Trainer::declared(const std::string& name) const {
  for (const ProducerNode& node : row_.producers()) {
    if (node.name == name) return node;
  }
  fail(ErrorCode::kNotFound, "the graph has no producer '{}'; it has: {}", name,
       listed(row_.producers(), &ProducerNode::name));
}

void Trainer::bind_producer(const std::string& name, ProducerPtr producer) {
  const ProducerNode& node = declared(name);
  if (producers_.contains(name)) {
    fail(ErrorCode::kAlreadyExists, "producer '{}' is bound already", name);
  }
  const TensorSpec data = producer->sample_spec();
  if (!sample_view(node, data.shape)) {
    fail(ErrorCode::kInvalidArgument, "producer '{}' is declared as {}, its data has samples of {}",
         name, named_shape_text(*node.shape, node.extents), shape_text(data.shape));
  }
  if (is_floating(data.dtype) != is_floating(node.dtype)) {
    fail(ErrorCode::kInvalidArgument,
         "producer '{}' is declared as {}, its data is {}: read it as {} (csv: add dtype={})", name,
         dtype_name(node.dtype), dtype_name(data.dtype), dtype_name(node.dtype),
         dtype_name(node.dtype));
  }
  producers_.emplace(name, std::move(producer));
}

void Trainer::check_consumer(const std::string& name) const {
  for (const ConsumerNode& node : row_.consumers()) {
    if (node.name == name) return;
  }
  fail(ErrorCode::kNotFound, "the graph has no consumer '{}'; it has: {}", name,
       listed(row_.consumers(), &ConsumerNode::name));
}

void Trainer::bind_consumer(const std::string& name, ConsumerPtr consumer) {
  check_consumer(name);
  if (!consumers_.emplace(name, std::move(consumer)).second) {
    fail(ErrorCode::kAlreadyExists, "consumer '{}' is bound already", name);
  }
}

void Trainer::check_bindings(const NamedProducers& producers, bool needs_targets) const {
  const std::pair<const std::string, ProducerPtr>* first = nullptr;
  for (const ProducerNode& node : row_.producers()) {
    const auto bound = producers.find(node.name);
    if (bound == producers.end()) {
      if (!needs_targets && row_.is_target_only(node.name)) continue;
      fail(ErrorCode::kFailedPrecondition, "producer '{}' has no data: bind it (the graph has: {})",
           node.name, listed(row_.producers(), &ProducerNode::name));
    }
    if (!bound->second->size()) continue;
    if (bound->second->sample_count() == 0) {
      fail(ErrorCode::kInvalidArgument, "the data of producer '{}' is empty", node.name);
    }
    if (first == nullptr) first = &*bound;
    if (first->second->size() != bound->second->size() ||
        first->second->sample_count() != bound->second->sample_count()) {
      fail(ErrorCode::kInvalidArgument,
           "producers '{}' and '{}' must be equally long: an epoch has {} samples in {} batches "
           "there "
           "and {} in {} here",
           first->first, node.name, first->second->sample_count().value_or(0),
           first->second->size().value_or(0), bound->second->sample_count().value_or(0),
           bound->second->size().value_or(0));
    }
  }
}

void Trainer::begin_epoch() {
  check_bindings(producers_, row_.learns());
  const SampleOrder order{seed_, static_cast<std::uint64_t>(progress_.epochs_done)};
  for (const auto& [name, producer] : producers_) {
    const auto restored = progress_.positions.find(name);
    if (restored != progress_.positions.end()) {
      producer->seek(restored->second);
    } else {
      producer->begin_epoch(order);
    }
  }
  progress_.positions.clear();
  in_epoch_ = true;
}

// The next batch of every producer, viewed in the declared shapes; nothing at the end of the data.
std::optional<NamedTensors> Trainer::pull(const NamedProducers& producers) const {
  NamedTensors batch;
  std::string ended;
  for (const auto& [name, producer] : producers) {
    std::optional<Tensor> tensor = producer->next();
    if (!tensor) {
      ended = name;
      continue;
    }
    batch.emplace(name, as_declared(declared(name), *tensor, producer->batched()));
  }
  if (ended.empty()) return batch;
  for (const auto& [name, tensor] : batch) {
    if (producers.find(name)->second->size()) {
      fail(ErrorCode::kInvalidArgument, "the data of producer '{}' ended before that of '{}'",
           ended, name);
    }
  }
  return std::nullopt;
}

// The next batch of every producer, once the other parts are at it too; nothing at the end of the
// epoch. `taken` batches came before.
std::optional<NamedTensors> Trainer::next_batch(const NamedProducers& producers,
                                                std::int64_t taken) {
  RunAgreement& agreement = row_.agreement();
  const bool due = agreement.await_batch(steps());
  if (!due) check_epoch_is_over(producers, taken);
  std::optional<NamedTensors> batch = due ? pull(producers) : std::nullopt;
  if (due && !batch && agreement.paces_epochs()) {
    fail(ErrorCode::kInvalidArgument,
         "the data bound here ended after {} batches, the other parts go on: the data of all parts "
         "must be equally long",
         taken);
  }
  return batch;
}

std::optional<StepReport> Trainer::try_step() {
  if (!in_epoch_) begin_epoch();
  const std::optional<NamedTensors> batch = next_batch(producers_, progress_.batches_in_epoch);
  if (!batch) return std::nullopt;
  NamedTensors outputs;
  BatchReport done;
  if (row_.learns()) {
    done = row_.train(*batch, consumers_.empty() ? nullptr : &outputs);
  } else {
    outputs = row_.infer(*batch);
    done.samples = row_.agreement().rows(*batch);
  }
  for (const auto& [name, consumer] : consumers_) {
    if (outputs.contains(name)) consumer->push(outputs.at(name));
  }
  ++progress_.batches_in_epoch;
  progress_.samples_in_epoch += done.samples;
  progress_.taps_in_epoch += done.taps;

  StepReport report;
  report.step = row_.state().steps;
  report.epoch = progress_.epochs_done + 1;
  report.batch = progress_.batches_in_epoch;
  for (const auto& [name, producer] : producers_) {
    if (producer->size()) report.batches_in_epoch = producer->size();
  }
  report.samples = done.samples;
  if (row_.has_tap()) report.loss = mean_loss(done.taps, done.samples);
  report.accuracy = accuracy(done.taps);
  report.learning_rate = done.learning_rate;
  report.gradient_norm = done.gradient_norm;
  report.updated = done.updated;
  note_rows(done.samples, report);
  return report;
}

// Batches of another size than those of the checkpoint make another run: that is said, once. The
// last batch of an epoch may be smaller.
void Trainer::note_rows(std::int64_t rows, const StepReport& report) {
  const bool whole = report.batches_in_epoch && report.batch < *report.batches_in_epoch;
  if (saved_rows_ > 0 && (rows > saved_rows_ || (rows < saved_rows_ && whole))) {
    log_warn("schedule", "goes on with batches of {} rows; the checkpoint's had {}", rows,
             saved_rows_);
    saved_rows_ = 0;
    progress_.batch_rows = 0;
  }
  progress_.batch_rows = std::max(progress_.batch_rows, rows);
}

// The other parts' epoch has ended: so must the data that is bound here.
void Trainer::check_epoch_is_over(const NamedProducers& producers, std::int64_t taken) const {
  for (const auto& [name, producer] : producers) {
    if (!producer->size() || producer->size() == taken) continue;
    fail(ErrorCode::kInvalidArgument,
         "the epoch of the other parts ended after {} batches, the data of producer '{}' has {}: "
         "the data of all parts must be equally long",
         taken, name, *producer->size());
  }
}

EpochReport Trainer::end_epoch() {
  EpochReport report;
  row_.agreement().end_epoch();
  const TapReport taps = row_.agreement().all_taps(progress_.taps_in_epoch, steps());
  ++progress_.epochs_done;
  report.epoch = progress_.epochs_done;
  report.steps = row_.state().steps;
  report.samples = progress_.samples_in_epoch;
  if (row_.learns()) report.train_loss = mean_loss(taps, report.samples);
  report.train_accuracy = accuracy(taps);
  progress_.last_train_loss = report.train_loss;
  progress_.last_train_accuracy = report.train_accuracy;
  progress_.batches_in_epoch = 0;
  progress_.samples_in_epoch = 0;
  progress_.taps_in_epoch = {};
  in_epoch_ = false;
  return report;
}

StepReport Trainer::step() {
  if (std::optional<StepReport> report = try_step()) return *report;
  end_epoch();
  if (std::optional<StepReport> report = try_step()) return *report;
  fail(ErrorCode::kInvalidArgument, "the bound data is empty");
}

bool Trainer::should_stop_early(const EpochReport& report, int patience) {
  if (!report.evaluation) return false;
  // A loss that is not finite is no better than any, and no worse than none.
  const bool finite = std::isfinite(report.evaluation->loss);
  const bool first = progress_.epochs_since_best < 0;
  if (finite && (first || report.evaluation->loss < progress_.best_loss)) {
    progress_.best_loss = report.evaluation->loss;
    progress_.epochs_since_best = 0;
  } else if (!first) {
    ++progress_.epochs_since_best;
  }
  return patience > 0 && progress_.epochs_since_best >= patience;
}

FitTerms Trainer::terms_of(std::int64_t epochs, const FitOptions& options) const {
  FitTerms terms;
  terms.last_epoch = progress_.epochs_done + epochs;
  terms.epochs_are_steps = true;
  for (const auto& [name, producer] : producers_) {
    if (producer->size()) terms.epochs_are_steps = false;
  }
  terms.evaluates = !options.evaluation.empty();
  terms.patience = options.patience;
  terms.saves = !options.checkpoint.empty();
  terms.save_every_steps = options.checkpoint_every;
  terms.save_every_epochs = options.checkpoint_every_epochs;
  return terms;
}

namespace {

// The next one takes the name, not the file.
void keep_checkpoint(const std::filesystem::path& path, std::int64_t step) {
  std::filesystem::path kept = path;
  kept += format(".step{}", step);
  std::error_code trouble;
  std::filesystem::remove(kept, trouble);
  std::filesystem::create_hard_link(path, kept, trouble);
  if (trouble) std::filesystem::copy_file(path, kept);
}

}  // namespace

void Trainer::tell_step(const StepReport& step, const FitOptions& options, MetricsFile& metrics) {
  metrics.write(step);
  if (options.on_step) options.on_step(step);
  if (!options.checkpoint.empty() && options.checkpoint_every > 0 &&
      step.step % options.checkpoint_every == 0) {
    save_together(options.checkpoint);
    if (options.keeps_checkpoints) keep_checkpoint(options.checkpoint, step.step);
  }
}

EpochReport Trainer::finish_epoch(const FitTerms& terms, const FitOptions& options,
                                  MetricsFile& metrics) {
  EpochReport report = end_epoch();
  if (terms.evaluates) report.evaluation = evaluate(options.evaluation);
  metrics.write(report);
  if (options.on_epoch) options.on_epoch(report);
  return report;
}

FitReport Trainer::fit(std::int64_t epochs, const FitOptions& options) {
  MetricsFile metrics(options.metrics);
  FitReport fit;
  RunAgreement& agreement = row_.agreement();
  const FitTerms terms = agreement.agree(terms_of(epochs, options), steps());
  row_.runner().begin_fit();
  const auto ends_here = [&] {
    const bool own = options.stop != nullptr && options.stop->load();
    return agreement.ends_after(steps(), row_.runner().wish_end(own));
  };
  while (progress_.epochs_done < terms.last_epoch && !fit.stopped_early && !fit.interrupted) {
    bool epoch_over = true;
    if (const std::optional<StepReport> step = try_step()) {
      tell_step(*step, options, metrics);
      // Nothing sized: an epoch is one step, unless other parts say where it ends.
      epoch_over = !step->batches_in_epoch && !agreement.paces_epochs();
      if (!terms.epochs_are_steps) fit.interrupted = ends_here();
    } else if (progress_.batches_in_epoch == 0) {
      fail(ErrorCode::kInvalidArgument, "the bound data is empty");
    }
    if (!epoch_over) continue;
    fit.last_epoch = finish_epoch(terms, options, metrics);
    fit.stopped_early = should_stop_early(fit.last_epoch, options.patience);
    if (terms.saves && options.checkpoint_every_epochs > 0 &&
        fit.last_epoch.epoch % options.checkpoint_every_epochs == 0) {
      save_together(options.checkpoint);
    }
    fit.interrupted = fit.interrupted || ends_here();
  }
  if (terms.saves) save_together(options.checkpoint);
  fit.epochs = progress_.epochs_done;
  fit.steps = row_.state().steps;
  return fit;
}

Evaluation Trainer::evaluate(const NamedProducers& producers) {
  check_bindings(producers, row_.learns());
  for (const auto& [name, producer] : producers) producer->begin_epoch({seed_, 0});
  RunAgreement& agreement = row_.agreement();
  Evaluation evaluation;
  TapReport taps;
  std::vector<NamedTensors> batches;
  std::int64_t taken = 0;
  for (bool more = true; more;) {
    std::optional<NamedTensors> batch = next_batch(producers, taken);
    more = batch.has_value();
    if (more) {
      ++taken;
      evaluation.samples += agreement.rows(*batch);
      batches.push_back(std::move(*batch));
    }
    if (batches.empty() || (more && batches.size() < row_.runner().batches_ahead())) continue;
    for (const Computed& computed : row_.compute(batches, true)) taps += computed.taps;
    batches.clear();
  }
  agreement.end_epoch();
  taps = agreement.all_taps(taps, steps());
  evaluation.loss = mean_loss(taps, evaluation.samples).value_or(0);
  evaluation.accuracy = accuracy(taps);
  return evaluation;
}

// The state of all parts of the run, here and elsewhere.
void Trainer::save_together(const std::filesystem::path& path) {
  row_.agreement().save(path, steps(),
                        [this](const std::filesystem::path& file) { return save(file); });
  row_.runner().forget_rests();
}

std::vector<NamedTensors> Trainer::infer(std::span<const NamedTensors> batches) {
  std::vector<NamedTensors> outputs;
  const std::size_t ahead = row_.runner().batches_ahead();
  for (std::size_t first = 0; first < batches.size(); first += ahead) {
    if (!row_.agreement().await_batch(steps())) {
      fail(ErrorCode::kFailedPrecondition,
           "part {}: the other parts end an epoch where this one infers: all parts must make the "
           "same "
           "calls",
           listed(row_.stages(), [](const Stage& stage) { return stage->graph().name(); }));
    }
    const auto some = batches.subspan(first, std::min(ahead, batches.size() - first));
    for (Computed& one : row_.compute(some, false)) outputs.push_back(std::move(one.outputs));
  }
  return outputs;
}

std::string Trainer::save(const std::filesystem::path& path) const {
  TrainingProgress progress = progress_;
  if (in_epoch_) {
    for (const auto& [name, producer] : producers_) progress.positions[name] = producer->position();
  }
  return save_checkpoint(path, row_, progress);
}

void Trainer::load(const std::filesystem::path& path) {
  progress_ = load_checkpoint(path, row_);
  loaded();
}

void Trainer::load(const std::filesystem::path& folder, const SavedStep& saved) {
  progress_ = load_saved_step(folder, saved, row_);
  loaded();
}

void Trainer::loaded() {
  in_epoch_ = false;
  seed_ = row_.settings().seed;
  saved_rows_ = progress_.batch_rows;
  row_.runner().forget_rests();
}

}  // namespace harmonics::inline in_schedule
