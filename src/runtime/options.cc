#include <harmonics/runtime/options.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

#include "exact/exact_rate.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr std::array<std::string_view, 3> kOptimizers = {"sgd", "adam", "adamw"};
constexpr std::array<std::string_view, 2> kDecays = {"all", "weights"};
constexpr std::array<std::string_view, 3> kSchedules = {"constant", "step", "cosine"};
constexpr std::array<std::string_view, 4> kPrecisions = {"full", "bf16", "fp16", "auto"};

template <typename Kind, std::size_t N>
Kind from_name(const std::array<std::string_view, N>& names, std::string_view name,
               const char* what) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Kind>(i);
  }
  fail(ErrorCode::kInvalidArgument, "unknown {} '{}': use one of {}", what, name, listed(names));
}

void require(bool ok, std::string_view name, std::string_view rule) {
  if (!ok) fail(ErrorCode::kInvalidArgument, "{} must be {}", name, rule);
}

bool finite_and_not_negative(double value) { return std::isfinite(value) && value >= 0; }

}  // namespace

OptimizerKind optimizer_from_name(std::string_view name) {
  return from_name<OptimizerKind>(kOptimizers, name, "optimizer");
}
std::string_view optimizer_name(OptimizerKind kind) {
  return kOptimizers.at(static_cast<int>(kind));
}
DecayScope decay_from_name(std::string_view name) {
  return from_name<DecayScope>(kDecays, name, "scope of weight decay");
}
std::string_view decay_name(DecayScope scope) { return kDecays.at(static_cast<int>(scope)); }
ScheduleKind schedule_from_name(std::string_view name) {
  return from_name<ScheduleKind>(kSchedules, name, "learning-rate schedule");
}
std::string_view schedule_name(ScheduleKind kind) { return kSchedules.at(static_cast<int>(kind)); }
PrecisionPolicy precision_from_name(std::string_view name) {
  return from_name<PrecisionPolicy>(kPrecisions, name, "precision");
}
std::string_view precision_name(PrecisionPolicy policy) {
  return kPrecisions.at(static_cast<int>(policy));
}

double LearningRateSchedule::at(std::int64_t step) const {
  if (step < warmup_steps) {
    return static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  }
  switch (kind) {
    case ScheduleKind::kConstant: return 1.0;
    case ScheduleKind::kStep:
      return std::pow(factor, static_cast<double>(step / std::max<std::int64_t>(every_steps, 1)));
    case ScheduleKind::kCosine: break;
  }
  const std::int64_t length = std::max<std::int64_t>(total_steps - warmup_steps, 1);
  const double progress =
      std::min(1.0, static_cast<double>(step - warmup_steps) / static_cast<double>(length));
  return floor + (1.0 - floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

double RuntimeOptions::rate_at(std::int64_t step) const {
  return optimizer.learning_rate *
         (reproducible ? exact_rate_factor(schedule, step) : schedule.at(step));
}

namespace {

// A reproducible run never falls back to something else in silence.
void check_reproducible(const RuntimeOptions& options) {
  if (options.precision != PrecisionPolicy::kFull && options.precision != PrecisionPolicy::kAuto) {
    fail(ErrorCode::kUnimplemented,
         "a reproducible run computes in full precision, not in {}: leave one of the two out",
         precision_name(options.precision));
  }
  if (options.recompute != 1) {
    fail(ErrorCode::kUnimplemented,
         "a reproducible run keeps what its layers gave: leave --recompute or --reproducible out");
  }
}

}  // namespace

void RuntimeOptions::check() const {
  require(finite_and_not_negative(optimizer.learning_rate), "the learning rate",
          "a finite number of at least 0");
  require(optimizer.momentum >= 0 && optimizer.momentum < 1, "momentum", "at least 0 and below 1");
  require(finite_and_not_negative(optimizer.weight_decay), "weight decay",
          "a finite number of at least 0");
  require(optimizer.beta1 >= 0 && optimizer.beta1 < 1, "beta1", "at least 0 and below 1");
  require(optimizer.beta2 >= 0 && optimizer.beta2 < 1, "beta2", "at least 0 and below 1");
  require(optimizer.epsilon > 0, "epsilon", "above 0");
  require(finite_and_not_negative(clip_norm), "the clipping norm", "a finite number of at least 0");
  require(micro_batches >= 1 && micro_batches <= 65536, "the number of micro-batches",
          "1 to 65536");
  require(recompute >= 0 && recompute <= 65536, "the number of stretches to compute again",
          "0 to 65536");
  require(threads >= 0 && threads <= 4096, "the number of threads", "0 to 4096");
  if (reproducible) check_reproducible(*this);
}

}  // namespace harmonics::inline in_runtime
