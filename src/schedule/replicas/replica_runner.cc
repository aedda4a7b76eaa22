#include "replica_runner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <harmonics/base/clock.h>
#include <harmonics/base/error.h>
#include <harmonics/base/exception_text.h>
#include <harmonics/base/log.h>
#include <harmonics/runtime/devices.h>

namespace harmonics::inline in_schedule {
namespace {

/// What all replicas must agree on, as their Error shows it.
std::string settings_text(const RuntimeOptions& options, const std::string& weights) {
  const OptimizerOptions& optimizer = options.optimizer;
  const LearningRateSchedule& schedule = options.schedule;
  return format(
      "seed {}, {} micro-batches, shares {}, clip {}, {} precision, {} lr {} momentum {} decay {} "
      "of {} beta "
      "{} {} "
      "epsilon {}, {} schedule {} {} {} {} {}, weights {}",
      options.seed, options.micro_batches, options.shares.text(), options.clip_norm,
      precision_name(options.precision), optimizer_name(optimizer.kind), optimizer.learning_rate,
      optimizer.momentum, optimizer.weight_decay, decay_name(optimizer.decay), optimizer.beta1,
      optimizer.beta2, optimizer.epsilon, schedule_name(schedule.kind), schedule.warmup_steps,
      schedule.every_steps, schedule.factor, schedule.total_steps, schedule.floor,
      weights.substr(0, 16));
}

}  // namespace

ReplicaRunner::ReplicaRunner(std::unique_ptr<BatchRunner> inner, Reducer reducer,
                             const RuntimeOptions& runtime)
    : inner_(std::move(inner)),
      reducer_(std::move(reducer)),
      runtime_(runtime),
      shares_(runtime.shares.are_given() ? runtime.shares : BatchShares()),
      rates_(reducer_.ranks()) {
  if (!shares_.are_given() || shares_.count() == reducer_.ranks()) return;
  fail(ErrorCode::kInvalidArgument, "shares {} are for {} replicas, there are {}: give one each",
       shares_.text(), shares_.count(), reducer_.ranks());
}

void ReplicaRunner::begin_fit() {
  wishes_end_ = false;
  end_is_wished_ = false;
}

bool ReplicaRunner::wish_end(bool own) {
  wishes_end_ = own;
  return end_is_wished_;
}

std::vector<Computed> ReplicaRunner::compute(std::span<Stage> stages,
                                             std::span<const NamedTensors> batches, bool measure) {
  use_compute_threads(runtime_.threads);
  return inner_->compute(stages, batches, measure);
}

std::vector<std::int64_t> ReplicaRunner::cut(std::int64_t rows, const RuntimeOptions& options,
                                             std::uint64_t step) {
  micro_batches_ = options.micro_batches;
  // Said from the first step on, so that the whole course can be learnt again.
  if (runtime_.shares.are_measured() && !shares_.are_given()) {
    shares_.change(step, ShareWeights(reducer_.ranks(), 1));
  }
  if (const ShareWeights* const weights = shares_.at(step)) {
    return joined(deal_rows(rows, options.micro_batches, *weights));
  }
  const auto replicas = static_cast<std::int64_t>(reducer_.ranks());
  return deal_rows(rows, options.micro_batches * replicas, {1}).front();
}

ReplicaShare ReplicaRunner::share_of(const SlicedBatch& batch) const {
  const MicroBatch& first = batch.micro_batches.front();
  if (const ShareWeights* const weights = shares_.at(first.step)) {
    return replica_share(batch, reducer_.rank(),
                         deal_rows(first.batch_samples, micro_batches_, *weights));
  }
  return replica_share(batch, reducer_.rank(), reducer_.ranks());
}

void ReplicaRunner::deal_anew(const SlicedBatch& batch, std::span<const double> seconds_per_row) {
  const MicroBatch& first = batch.micro_batches.front();
  // The last batch of an epoch, which may be small, says little.
  if (first.batch_samples < most_rows_) return;
  most_rows_ = first.batch_samples;
  rates_.note(seconds_per_row);
  auto better = rates_.better(most_rows_, *shares_.at(first.step));
  if (!better || shares_.change(first.step + 1, std::move(*better))) return;
  if (!std::exchange(warned_, true)) {
    log_warn("schedule", "the shares of the replicas stay as they are: they have changed {} times",
             kMaxShareChanges);
  }
}

NamedTensors ReplicaRunner::collect(std::span<Stage> stages,
                                    NamedTensors (StageBackend::*tensors)() const) {
  std::vector<NamedTensors> parts(stages.size());
  inner_->for_each(stages,
                   [&](std::size_t part, Stage& stage) { parts[part] = ((*stage).*tensors)(); });
  NamedTensors all;
  for (NamedTensors& part : parts) all.merge(part);
  return all;
}

SliceResults ReplicaRunner::run(std::span<Stage> stages, const SlicedBatch& batch) {
  // The caller may have changed threads since the last batch.
  use_compute_threads(runtime_.threads);
  if (!stopped_by_.empty()) {
    fail(ErrorCode::kFailedPrecondition,
         "replica {} of {} has stopped ({}); make all replicas anew and go on from a checkpoint",
         reducer_.rank(), reducer_.ranks(), stopped_by_);
  }
  SliceResults results;
  std::optional<std::size_t> failed;
  try {
    results = run_share(stages, batch, failed);
  } catch (const std::exception& error) {
    stopped_by_ = exception_text(error);
    reducer_.abandon(stopped_by_);
    throw;
  }
  if (failed && results.finite) {
    fail(ErrorCode::kFailedPrecondition,
         "the loss of replica {} is not finite at step {}: its own error says more", *failed,
         batch.micro_batches.front().step + 1);
  }
  return results;
}

SliceResults ReplicaRunner::run_share(std::span<Stage> stages, const SlicedBatch& batch,
                                      std::optional<std::size_t>& failed_rank) {
  if (!introduced_) {
    const std::string weights = weights_digest(collect(stages, &StageBackend::parameters));
    reducer_.set_settings(settings_text(runtime_, weights));
    introduced_ = true;
  }
  const ReplicaShare share = share_of(batch);
  const NamedTensors before = collect(stages, &StageBackend::buffers);
  const ReplicaSums sums(stages, share, before);
  // A flag of each replica whose loss is not finite, what a row took in each, and the number of
  // those that wish to end.
  const std::size_t replicas = reducer_.ranks();
  std::vector<double> flags(2 * replicas + 1, 0.0);
  NamedTensors spare;
  for (const auto& [name, spec] : sums.trained()) spare.emplace(name, gradients_[name].spare);
  reducer_.begin(sums.layout(flags.size()), batch.micro_batches.front().step, spare);
  const SlicedBatch own = slice_of(batch, share);
  const SteadyClock clock;
  const Nanoseconds begun = clock.now();
  SliceResults results = pass(stages, own);
  const double seconds = in_seconds(clock.now() - begun);

  TapReport taps;
  for (const TapReport& one : results.taps) taps += one;
  flags[reducer_.rank()] = results.finite ? 0.0 : 1.0;
  const auto rows = static_cast<double>(batch.micro_batches.front().batch_samples);
  if (!share.idle()) flags[replicas + reducer_.rank()] = seconds / (share.weight * rows);
  flags.back() = wishes_end_ ? 1.0 : 0.0;
  const std::set<std::string> reached = give_rest(stages, sums);
  for (auto& [name, tensor] :
       sums.rest(reached, collect(stages, &StageBackend::buffers), taps, flags)) {
    reducer_.give(name, tensor);
  }
  const NamedTensors reduced = reducer_.finish();
  take_gradients(stages, sums.gradients(reduced));

  flags = ReplicaSums::flags(reduced);
  end_is_wished_ = flags.back() > 0;
  const std::vector<double> rates(flags.begin() + std::ssize(flags) / 2, flags.end() - 1);
  flags.resize(replicas);
  const auto first = std::ranges::find_if(flags, [](double flag) { return flag > 0; });
  if (first != flags.end()) {
    failed_rank = static_cast<std::size_t>(first - flags.begin());
    for (Stage& stage : stages) stage->set_buffers(before);
    return results;
  }
  if (runtime_.shares.are_measured()) deal_anew(batch, rates);
  const NamedTensors buffers = sums.buffers(reduced);
  inner_->for_each(stages, [&](std::size_t, Stage& stage) { stage->set_buffers(buffers); });
  results.taps = {ReplicaSums::taps(reduced)};
  if (share.idle()) {
    for (NamedTensors& outputs : results.outputs) {
      for (auto& [name, tensor] : outputs) tensor = tensor.slice(0, 0);
    }
  }
  return results;
}

SliceResults ReplicaRunner::pass(std::span<Stage> stages, const SlicedBatch& own) {
  for (auto& [name, gradients] : gradients_) gradients.given = {};
  const GradientListener listener = [this](const std::string& name, const Tensor& gradient) {
    Gradients& known = gradients_.at(name);
    // Where a stage computes in what it was given, that tensor stands for all later ones.
    const bool same = known.held.defined() && known.held.bytes().data() == gradient.bytes().data();
    known.given = same ? known.held : gradient;
    reducer_.give(name, known.given);
  };
  const auto listen = [&](const GradientListener& to) {
    for (Stage& stage : stages) {
      stage->listen_for_gradients(own.micro_batches.back().index, to);
    }
  };
  listen(listener);
  try {
    SliceResults results = inner_->run(stages, own);
    listen({});
    return results;
  } catch (...) {
    listen({});
    throw;
  }
}

std::set<std::string> ReplicaRunner::give_rest(std::span<Stage> stages, const ReplicaSums& sums) {
  std::set<std::string> reached;
  for (const auto& [name, spec] : sums.trained()) {
    if (gradients_.at(name).given.defined()) reached.insert(name);
  }
  if (reached.size() == sums.trained().size()) return reached;
  NamedTensors all = collect(stages, &StageBackend::gradients);
  for (const auto& [name, spec] : sums.trained()) {
    Gradients& known = gradients_.at(name);
    if (known.given.defined()) continue;
    const auto found = all.find(name);
    if (found != all.end()) reached.insert(name);
    known.given =
        found == all.end() ? Tensor::zeros(spec.shape, spec.dtype) : std::move(found->second);
    reducer_.give(name, known.given);
  }
  return reached;
}

// What was given to the other replicas must not change until they have it. They have it when they
// send what belongs to the next step: only then are sums written over it.
void ReplicaRunner::take_gradients(std::span<Stage> stages, const NamedTensors& sums) {
  inner_->for_each(stages, [&](std::size_t, Stage& stage) { stage->take_gradients(sums); });
  for (auto& [name, known] : gradients_) {
    const auto sum = sums.find(name);
    known.held = sum == sums.end() ? Tensor() : sum->second;
    known.spare = known.given;
  }
}

}  // namespace harmonics::inline in_schedule
