#include <harmonics/schedule/learning_settings.h>

#include <cmath>
#include <span>
#include <string_view>

#include <harmonics/base/error.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr std::string_view kOptimizerNames[] = {"optimizer", "lr",    "momentum", "weight_decay",
                                                "beta1",     "beta2", "epsilon",  "decay"};
constexpr std::string_view kScheduleNames[] = {"schedule",    "warmup",      "step_every",
                                               "step_factor", "total_steps", "floor"};
constexpr std::string_view kClipNames[] = {"clip"};
constexpr std::string_view kSeedNames[] = {"seed"};
constexpr std::string_view kMicroBatchNames[] = {"micro_batches"};

// Members that are missing stay as they are.
void read(const Json& json, std::string_view key, double& value) {
  if (const Json* found = json.find(key)) value = found->as_number();
}
template <typename Whole>
void read(const Json& json, std::string_view key, Whole& value) {
  if (const Json* found = json.find(key)) value = static_cast<Whole>(found->as_integer());
}

void read_optimizer(const Json& json, OptimizerOptions& optimizer) {
  if (const Json* kind = json.find("kind")) optimizer.kind = optimizer_from_name(kind->as_string());
  read(json, "learning_rate", optimizer.learning_rate);
  read(json, "momentum", optimizer.momentum);
  read(json, "weight_decay", optimizer.weight_decay);
  read(json, "beta1", optimizer.beta1);
  read(json, "beta2", optimizer.beta2);
  read(json, "epsilon", optimizer.epsilon);
  if (const Json* decay = json.find("decay")) optimizer.decay = decay_from_name(decay->as_string());
}

void read_schedule(const Json& json, LearningRateSchedule& schedule) {
  if (const Json* kind = json.find("kind")) schedule.kind = schedule_from_name(kind->as_string());
  read(json, "warmup_steps", schedule.warmup_steps);
  read(json, "every_steps", schedule.every_steps);
  read(json, "factor", schedule.factor);
  read(json, "total_steps", schedule.total_steps);
  read(json, "floor", schedule.floor);
}

// The same limits as for settings that a user gives.
void require_sense(const LearningSettings& settings) {
  RuntimeOptions options;
  options.micro_batches = settings.micro_batches;
  options.optimizer = settings.optimizer;
  options.clip_norm = settings.clip_norm;
  options.check();
  const LearningRateSchedule& schedule = settings.schedule;
  if (schedule.warmup_steps < 0 || schedule.every_steps < 1 || schedule.total_steps < 0 ||
      !std::isfinite(schedule.factor) || !std::isfinite(schedule.floor)) {
    fail(ErrorCode::kInvalidArgument, "the schedule has a length or factor out of range");
  }
  const double split = settings.data.test_split.value_or(0);
  if (settings.data.batch_size < 0 || !(split >= 0 && split < 1)) {
    fail(ErrorCode::kInvalidArgument, "the batch size or the split is out of range");
  }
}

/// Notes how two settings differ in these names.
void note(std::vector<std::string>& lines, std::span<const std::string_view> names,
          const LearningSettings& winner, const LearningSettings& other) {
  const auto ours = setting_texts(winner), theirs = setting_texts(other);
  for (const std::string_view name : names) {
    const std::string& here = ours.at(std::string(name));
    const std::string& there = theirs.at(std::string(name));
    if (here != there) lines.push_back(format("{} {} ({})", name, here, there));
  }
}

}  // namespace

LearningSettings learning_settings(const RuntimeOptions& options) {
  return {options.seed,      options.micro_batches, options.optimizer,   options.schedule,
          options.clip_norm, options.data,          options.reproducible};
}

Json settings_json(const LearningSettings& settings) {
  const OptimizerOptions& optimizer = settings.optimizer;
  const LearningRateSchedule& schedule = settings.schedule;
  Json json;
  json.set("seed", settings.seed).set("micro_batches", settings.micro_batches);
  json.set("clip_norm", settings.clip_norm);
  Json rule;
  rule.set("kind", optimizer_name(optimizer.kind))
      .set("learning_rate", optimizer.learning_rate)
      .set("momentum", optimizer.momentum)
      .set("weight_decay", optimizer.weight_decay)
      .set("beta1", optimizer.beta1)
      .set("beta2", optimizer.beta2)
      .set("epsilon", optimizer.epsilon);
  // Older versions, which know of no scope, read on where it says nothing new.
  if (optimizer.decay != DecayScope::kAll) rule.set("decay", decay_name(optimizer.decay));
  json.set("optimizer", std::move(rule));
  json.set("schedule", Json()
                           .set("kind", schedule_name(schedule.kind))
                           .set("warmup_steps", schedule.warmup_steps)
                           .set("every_steps", schedule.every_steps)
                           .set("factor", schedule.factor)
                           .set("total_steps", schedule.total_steps)
                           .set("floor", schedule.floor));
  const DataSettings& data = settings.data;
  if (data.batch_size > 0) json.set("batch_size", data.batch_size);
  if (data.test_split) json.set("test_split", *data.test_split);
  if (data.shuffle) json.set("shuffle", *data.shuffle);
  if (settings.reproducible) json.set("reproducible", true);
  return json;
}

LearningSettings settings_from_json(const Json& json) {
  try {
    LearningSettings settings;
    read(json, "seed", settings.seed);
    read(json, "micro_batches", settings.micro_batches);
    read(json, "clip_norm", settings.clip_norm);
    if (const Json* optimizer = json.find("optimizer")) {
      read_optimizer(*optimizer, settings.optimizer);
    }
    if (const Json* schedule = json.find("schedule")) read_schedule(*schedule, settings.schedule);
    read(json, "batch_size", settings.data.batch_size);
    if (const Json* split = json.find("test_split")) settings.data.test_split = split->as_number();
    if (const Json* shuffle = json.find("shuffle")) settings.data.shuffle = shuffle->as_bool();
    if (const Json* same = json.find("reproducible")) settings.reproducible = same->as_bool();
    require_sense(settings);
    return settings;
  } catch (const Error& error) {
    fail(ErrorCode::kDataLoss, "the settings in the checkpoint make no sense: {}", error.what());
  }
}

std::map<std::string, std::string> setting_texts(const LearningSettings& settings) {
  const OptimizerOptions& optimizer = settings.optimizer;
  const LearningRateSchedule& schedule = settings.schedule;
  std::map<std::string, std::string> texts = {
      {"seed", format("{}", settings.seed)},
      {"micro_batches", format("{}", settings.micro_batches)},
      {"clip", format("{}", settings.clip_norm)},
      {"reproducible", settings.reproducible ? "true" : "false"},
      {"optimizer", std::string(optimizer_name(optimizer.kind))},
      {"lr", format("{}", optimizer.learning_rate)},
      {"momentum", format("{}", optimizer.momentum)},
      {"weight_decay", format("{}", optimizer.weight_decay)},
      {"beta1", format("{}", optimizer.beta1)},
      {"beta2", format("{}", optimizer.beta2)},
      {"epsilon", format("{}", optimizer.epsilon)},
      {"decay", std::string(decay_name(optimizer.decay))},
      {"schedule", std::string(schedule_name(schedule.kind))},
      {"warmup", format("{}", schedule.warmup_steps)},
      {"step_every", format("{}", schedule.every_steps)},
      {"step_factor", format("{}", schedule.factor)},
      {"total_steps", format("{}", schedule.total_steps)},
      {"floor", format("{}", schedule.floor)},
  };
  const DataSettings& data = settings.data;
  if (data.batch_size > 0) texts["batch_size"] = format("{}", data.batch_size);
  if (data.test_split) texts["test_split"] = format("{}", *data.test_split);
  if (data.shuffle) texts["shuffle"] = *data.shuffle ? "true" : "false";
  return texts;
}

ResumedSettings resumed_settings(const LearningSettings& own, const LearningSettings& saved) {
  ResumedSettings resumed{own, {}, {}};
  const auto join = [&](auto LearningSettings::*member, std::span<const std::string_view> names) {
    if (own.*member == LearningSettings().*member) {
      resumed.settings.*member = saved.*member;
      note(resumed.taken, names, saved, own);
    } else {
      note(resumed.given, names, own, saved);
    }
  };
  join(&LearningSettings::optimizer, kOptimizerNames);
  join(&LearningSettings::schedule, kScheduleNames);
  join(&LearningSettings::clip_norm, kClipNames);
  join(&LearningSettings::seed, kSeedNames);
  join(&LearningSettings::micro_batches, kMicroBatchNames);
  if (own.data == DataSettings{}) {
    resumed.settings.data = saved.data;
    resumed.settings.data.batch_size = 0;  // the batches that come say it
  }
  return resumed;
}

}  // namespace harmonics::inline in_schedule
