#include "auto_micro_batches.h"

#include <string>

#include <harmonics/base/clock.h>
#include <harmonics/base/format.h>
#include <harmonics/schedule/micro_batches.h>

namespace harmonics::inline in_torch_program {
namespace {

constexpr std::string_view kMicroBatchesKey = "micro_batches";

// Of one replica's share of a batch, which is what micro-batches are cut from.
std::int64_t rows_of(const TrainingJob& job) {
  const std::int64_t replicas = job.settings.replicas;
  return (job.settings.batch_size + replicas - 1) / replicas;
}

void put_setting(std::vector<Setting>& settings, std::int64_t count) {
  std::erase_if(settings, [](const Setting& one) { return one.key == kMicroBatchesKey; });
  settings.push_back({std::string(kMicroBatchesKey), std::to_string(count), 0});
}

// What one replica has of the job, with data of its own; it reads, writes and signs nothing else.
TrainingJob trial_of(const TrainingJob& job) {
  TrainCommand command = job.command;
  command.resume = false;
  command.checkpoint.clear();
  command.secure = {};
  command.output = OutputStyle::kQuiet;  // what it has to say, the run says
  put_setting(command.settings, 1);
  const std::int64_t parts = job.settings.parts;
  const std::int64_t rows = rows_of(job);
  std::erase_if(command.settings, [](const Setting& one) { return one.key == "batch_size"; });
  command.settings.push_back({"batch_size", std::to_string(rows), 0});
  TrainingJob trial = prepare_job(command);
  trial.command.weights.clear();
  trial.settings.parts = parts;
  if (job.settings.replicas > 1) trial.settings.shares = "equal";
  trial.settings.replicas = 1;
  return trial;
}

MicroBatchChoice measured(const TrainingJob& job, const MakeLearner& make,
                          const InterruptWatch& watch) {
  std::unique_ptr<Learner> learner;
  const auto step = [&](std::int64_t count) {
    watch.check("no step was computed, nothing was written");
    if (learner == nullptr) {
      const TrainingJob trial = trial_of(job);
      learner = make(trial);
      for (const auto& [name, producer] : trial.data.train) learner->bindProducer(name, producer);
    }
    StageRow& row = learner->trainer().row();
    LearningSettings settings = row.settings();
    settings.micro_batches = static_cast<int>(count);
    row.set_settings(settings);
    static_cast<void>(learner->step());
  };
  MicroBatchTrial trial;
  trial.rows = rows_of(job);
  trial.parts = job.settings.parts;
  trial.step = step;
  return choose_micro_batches(trial, SteadyClock());
}

}  // namespace

void settle_micro_batches(TrainingJob& job, const MakeLearner& make, const InterruptWatch& watch) {
  if (job.settings.micro_batches != kAutoMicroBatches) return;
  job.settings.micro_batches = 1;
  const MicroBatchChoice choice = measured(job, make, watch);
  job.settings.micro_batches = choice.micro_batches;
  put_setting(job.command.settings, choice.micro_batches);
  notice(job.command, choice_text(choice, rows_of(job)));
}

}  // namespace harmonics::inline in_torch_program
