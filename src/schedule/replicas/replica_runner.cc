#include "replica_runner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/exception_text.h>
#include <harmonics/runtime/devices.h>

#include "replica_share.h"

namespace harmonics::inline in_schedule {
namespace {

/// What all replicas must agree on, as their Error shows it.
std::string settings_text(const RuntimeOptions& options, const std::string& weights) {
  const OptimizerOptions& optimizer = options.optimizer;
  const LearningRateSchedule& schedule = options.schedule;
  return format(
      "seed {}, {} micro-batches, clip {}, {} precision, {} lr {} momentum {} decay {} of {} beta "
      "{} {} "
      "epsilon {}, {} schedule {} {} {} {} {}, weights {}",
      options.seed, options.micro_batches, options.clip_norm, precision_name(options.precision),
      optimizer_name(optimizer.kind), optimizer.learning_rate, optimizer.momentum,
      optimizer.weight_decay, decay_name(optimizer.decay), optimizer.beta1, optimizer.beta2,
      optimizer.epsilon, schedule_name(schedule.kind), schedule.warmup_steps, schedule.every_steps,
      schedule.factor, schedule.total_steps, schedule.floor, weights.substr(0, 16));
}

}  // namespace

ReplicaRunner::ReplicaRunner(std::unique_ptr<BatchRunner> inner, Reducer reducer,
                             const RuntimeOptions& runtime)
    : inner_(std::move(inner)), reducer_(std::move(reducer)), runtime_(runtime) {}

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

std::int64_t ReplicaRunner::micro_batches(std::int64_t own) const {
  return inner_->micro_batches(own) * static_cast<std::int64_t>(reducer_.ranks());
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
  const ReplicaShare share = replica_share(batch, reducer_.rank(), reducer_.ranks());
  const NamedTensors before = collect(stages, &StageBackend::buffers);
  const ReplicaSums sums(stages, share, before);
  SliceResults results = inner_->run(stages, slice_of(batch, share));

  TapReport taps;
  for (const TapReport& one : results.taps) taps += one;
  // A flag of each replica whose loss is not finite, and the number of those that wish to end.
  std::vector<double> flags(reducer_.ranks() + 1, 0.0);
  flags[reducer_.rank()] = results.finite ? 0.0 : 1.0;
  flags.back() = wishes_end_ ? 1.0 : 0.0;
  const NamedTensors reduced =
      reducer_.sum(sums.summands(collect(stages, &StageBackend::gradients),
                                 collect(stages, &StageBackend::buffers), taps, flags),
                   batch.micro_batches.front().step);

  flags = ReplicaSums::flags(reduced);
  end_is_wished_ = flags.back() > 0;
  flags.pop_back();
  const auto first = std::ranges::find_if(flags, [](double flag) { return flag > 0; });
  if (first != flags.end()) {
    failed_rank = static_cast<std::size_t>(first - flags.begin());
    for (Stage& stage : stages) stage->set_buffers(before);
    return results;
  }
  const NamedTensors gradients = sums.gradients(reduced);
  const NamedTensors buffers = sums.buffers(reduced);
  inner_->for_each(stages, [&](std::size_t, Stage& stage) {
    stage->set_gradients(gradients);
    stage->set_buffers(buffers);
  });
  results.taps = {ReplicaSums::taps(reduced)};
  if (share.idle()) {
    for (NamedTensors& outputs : results.outputs) {
      for (auto& [name, tensor] : outputs) tensor = tensor.slice(0, 0);
    }
  }
  return results;
}

}  // namespace harmonics::inline in_schedule
