#include "replica_runner.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <harmonics/base/clock.h>
#include <harmonics/base/error.h>
#include <harmonics/base/exception_text.h>
#include <harmonics/base/log.h>
#include <harmonics/runtime/devices.h>

#include "replica_flags.h"
#include "secure/secure_replicas.h"

namespace harmonics::inline in_schedule {
namespace {

/// Which part of a secure run signs the sums.
constexpr std::size_t kSumsPart = 1;

/// What all replicas must agree on, as their Error shows it.
std::string settings_text(const RuntimeOptions& options, const std::string& weights,
                          const char* custody) {
  const OptimizerOptions& optimizer = options.optimizer;
  const LearningRateSchedule& schedule = options.schedule;
  return format(
      "seed {}, {} micro-batches, shares {}, clip {}, {} precision, {} lr {} momentum {} decay {} "
      "of {} beta "
      "{} {} "
      "epsilon {}, {} schedule {} {} {} {} {}, weights {}{}",
      options.seed, options.micro_batches, options.shares.text(), options.clip_norm,
      precision_name(options.precision), optimizer_name(optimizer.kind), optimizer.learning_rate,
      optimizer.momentum, optimizer.weight_decay, decay_name(optimizer.decay), optimizer.beta1,
      optimizer.beta2, optimizer.epsilon, schedule_name(schedule.kind), schedule.warmup_steps,
      schedule.every_steps, schedule.factor, schedule.total_steps, schedule.floor,
      weights.substr(0, 16), custody);
}

void check_share_count(const BatchShares& shares, std::size_t replicas) {
  if (!shares.are_given() || shares.count() == replicas) return;
  fail(ErrorCode::kInvalidArgument, "shares {} are for {} replicas, there are {}: give one each",
       shares.text(), shares.count(), replicas);
}

// Sums between replicas are not part of the reproducible arithmetic.
void refuse_reproducible(const RuntimeOptions& runtime) {
  if (!runtime.reproducible) return;
  fail(ErrorCode::kUnimplemented,
       "a reproducible run has no replicas: leave out --reproducible or --replicas");
}

}  // namespace

ReplicaRunner::ReplicaRunner(std::unique_ptr<BatchRunner> inner, Reducer reducer,
                             const RuntimeOptions& runtime, SecureRun* secure)
    : inner_(std::move(inner)),
      secure_(secure),
      reducer_(std::move(reducer)),
      number_(reducer_->rank()),
      replicas_(reducer_->ranks()),
      members_(replicas_),
      runtime_(runtime),
      shares_(runtime.shares.are_given() ? runtime.shares : BatchShares()),
      rates_(replicas_) {
  std::iota(members_.begin(), members_.end(), std::size_t{0});
  check_share_count(shares_, replicas_);
  refuse_reproducible(runtime);
}

ReplicaRunner::ReplicaRunner(std::unique_ptr<BatchRunner> inner,
                             std::unique_ptr<ReplicaCompany> company, const RuntimeOptions& runtime,
                             const ReductionOptions& reduction)
    : inner_(std::move(inner)),
      company_(std::move(company)),
      reduction_(reduction),
      number_(company_->number()),
      replicas_(company_->replicas()),
      runtime_(runtime),
      rates_(replicas_) {
  check_share_count(runtime.shares, replicas_);
  refuse_reproducible(runtime);
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
  if (secure_ != nullptr) introduce(stages, 0);
  return inner_->compute(stages, batches, measure);
}

std::vector<std::int64_t> ReplicaRunner::cut(std::int64_t rows, const RuntimeOptions& options,
                                             std::uint64_t step) {
  micro_batches_ = options.micro_batches;
  // Said from the first step on, so that the whole course can be learnt again.
  if (runtime_.shares.are_measured() && !shares_.are_given()) {
    shares_.change(step, ShareWeights(replicas_, 1));
  }
  if (const ShareWeights* const weights = shares_.at(step)) {
    return joined(deal_rows(rows, options.micro_batches, *weights));
  }
  const auto replicas = static_cast<std::int64_t>(replicas_);
  return deal_rows(rows, options.micro_batches * replicas, {1}).front();
}

ReplicaShare ReplicaRunner::share_of(const SlicedBatch& batch) const {
  const MicroBatch& first = batch.micro_batches.front();
  if (const ShareWeights* const weights = shares_.at(first.step)) {
    return replica_share(batch, number_, deal_rows(first.batch_samples, micro_batches_, *weights));
  }
  return replica_share(batch, number_, replicas_);
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
         number_, replicas_, stopped_by_);
  }
  SliceResults results;
  failed_.reset();
  try {
    if (company_ != nullptr) {
      results = run_elastic(stages, batch);
    } else {
      const NamedTensors before = collect(stages, &StageBackend::buffers);
      Summed summed = sum_share(stages, batch, before);
      results = take_over(stages, batch, summed, before);
    }
  } catch (const std::exception& error) {
    stopped_by_ = exception_text(error);
    if (reducer_) reducer_->abandon(stopped_by_);
    if (secure_ != nullptr) secure_->spoil(stopped_by_);
    throw;
  }
  if (failed_ && results.finite) {
    fail(ErrorCode::kFailedPrecondition,
         "the loss of replica {} is not finite at step {}: its own error says more", *failed_,
         batch.micro_batches.front().step + 1);
  }
  return results;
}

void ReplicaRunner::introduce(std::span<Stage> stages, std::uint64_t step) {
  if (introduced_) return;
  const std::string weights = weights_digest(collect(stages, &StageBackend::parameters));
  reducer_->set_settings(settings_text(runtime_, weights, secure_ != nullptr ? ", secure" : ""));
  introduced_ = true;
  if (secure_ == nullptr) return;
  const std::vector<std::string> claims = gathered_texts(*reducer_, replica_claim(*secure_), step);
  secure_->set_opening(opening_of_replicas(claims, reducer_->order(), secure_->options()));
  secure_->begin();
  reducer_->set_custody(&secure_->part(kSumsPart));
}

ReplicaRunner::Summed ReplicaRunner::sum_share(std::span<Stage> stages, const SlicedBatch& batch,
                                               const NamedTensors& before) {
  const std::uint64_t step = batch.micro_batches.front().step;
  introduce(stages, step);
  if (secure_ != nullptr) {
    secure_->begin();
    secure_->part(kSumsPart).begin_step(stages.front(), step);
  }
  Summed summed;
  summed.share = share_of(batch);
  const ReplicaSums& sums = summed.sums.emplace(stages, summed.share, before);
  ReplicaFlags flags(replicas_);
  NamedTensors spare;
  for (const auto& [name, spec] : sums.trained()) spare.emplace(name, gradients_[name].spare);
  reducer_->begin(sums.layout(flags.size()), step, spare);
  const SlicedBatch own = slice_of(batch, summed.share);
  const SteadyClock clock;
  const Nanoseconds begun = clock.now();
  summed.results = pass(stages, own);
  const double seconds = in_seconds(clock.now() - begun);

  TapReport taps;
  for (const TapReport& one : summed.results.taps) taps += one;
  if (!summed.results.finite) flags.set_not_finite(number_);
  const auto rows = static_cast<double>(batch.micro_batches.front().batch_samples);
  if (!summed.share.idle()) {
    flags.set_seconds_per_row(number_, seconds / (summed.share.weight * rows));
  }
  flags.set_wishes(wishes_end_, company_ != nullptr && company_->newcomer_waits());
  const std::set<std::string> reached = give_rest(stages, sums);
  for (auto& [name, tensor] :
       sums.rest(reached, collect(stages, &StageBackend::buffers), taps, flags.values())) {
    reducer_->give(name, tensor);
  }
  summed.reduced = reducer_->finish();
  return summed;
}

SliceResults ReplicaRunner::take_over(std::span<Stage> stages, const SlicedBatch& batch,
                                      Summed& summed, const NamedTensors& before) {
  const ReplicaSums& sums = *summed.sums;
  take_gradients(stages, sums.gradients(summed.reduced));
  const ReplicaFlags flags(replicas_, ReplicaSums::flags(summed.reduced));
  end_is_wished_ = flags.end_is_wished();
  newcomer_is_due_ = flags.newcomer_waits();
  failed_ = flags.first_not_finite();
  SliceResults results = std::move(summed.results);
  if (failed_) {
    for (Stage& stage : stages) stage->set_buffers(before);
    return results;
  }
  if (runtime_.shares.are_measured()) deal_anew(batch, flags.seconds_per_row());
  const NamedTensors buffers = sums.buffers(summed.reduced);
  inner_->for_each(stages, [&](std::size_t, Stage& stage) { stage->set_buffers(buffers); });
  results.taps = {ReplicaSums::taps(summed.reduced)};
  if (summed.share.idle()) {
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
    reducer_->give(name, known.given);
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
    failed_here_ = true;
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
    reducer_->give(name, known.given);
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
