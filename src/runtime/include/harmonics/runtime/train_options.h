// What the settings of a training run mean to the runtime; for programs that have libtorch.
#pragma once

#include <harmonics/runtime/options.h>
#include <harmonics/settings/train_settings.h>

namespace harmonics::inline in_runtime {

/// All but the length of the schedule, which takes the data to know.
[[nodiscard]] inline RuntimeOptions runtime_options(const TrainSettings& settings) {
  RuntimeOptions options;
  options.seed = static_cast<std::uint64_t>(settings.seed);
  options.threads = static_cast<int>(settings.threads);
  options.micro_batches = static_cast<int>(settings.micro_batches);
  options.recompute = static_cast<int>(settings.recompute);
  options.shares = BatchShares::parse(settings.shares);
  options.optimizer.kind = optimizer_from_name(settings.optimizer);
  options.optimizer.learning_rate = settings.lr;
  options.optimizer.momentum = settings.momentum;
  options.optimizer.weight_decay = settings.weight_decay;
  options.optimizer.decay = decay_from_name(settings.decay);
  options.optimizer.beta1 = settings.beta1;
  options.optimizer.beta2 = settings.beta2;
  options.optimizer.epsilon = settings.epsilon;
  options.schedule.kind = schedule_from_name(settings.schedule);
  options.schedule.warmup_steps = settings.warmup;
  options.schedule.every_steps = settings.step_every;
  options.schedule.factor = settings.step_factor;
  options.clip_norm = settings.clip;
  options.precision = precision_from_name(settings.precision);
  options.backend = backend_from_name(settings.backend);
  options.reproducible = settings.reproducible;
  return options;
}

}  // namespace harmonics::inline in_runtime
