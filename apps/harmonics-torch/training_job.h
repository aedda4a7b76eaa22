// What `harmonics train` and `harmonics stage` have in common: from a command to a job, and a job
// from its start to its report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/options/commands.h>
#include <harmonics/plan/plan.h>
#include <harmonics/schedule/learner.h>
#include <harmonics/schedule/part_copies.h>
#include <harmonics/schedule/training_data.h>
#include <harmonics/settings/train_settings.h>
#include <harmonics/transport/packing.h>

#include "interrupt.h"
#include "train_report.h"

namespace harmonics::inline in_torch_program {

struct TrainingJob {
  /// With the weights that the file names where no flag does.
  TrainCommand command;
  TrainSettings settings;
  HarmonicGraph graph;
  TrainingData data;
  /// Of the checkpoint that the run goes on from, where it says them.
  std::optional<LearningSettings> resumed = std::nullopt;
  /// Of one part of a run in several processes: the bits of all boundaries.
  BoundaryPacking packing = {};
  /// How the graph was planned, where a plan was given: bits of what leaves each part but the last
  /// where it says them.
  Plan plan = {};
  std::vector<int> planned_bits = {};
  /// Rows that the plan takes at a time; 0: it does not say.
  std::int64_t planned_rows = 0;
  /// Of one part: what it knows about copies.
  PartCopies copies = {};
};

/// Reads the model, opens and splits its data. A graph without a tap, producers without data, or a
/// plan for another model are an Error.
[[nodiscard]] TrainingJob prepare_job(const TrainCommand& command);
/// The same with the data of one part alone; sources of other parts are only looked at where the
/// graph's shapes follow from them. `part` becomes that part.
/// The graph is cut as the plan says, if there is one.
[[nodiscard]] TrainingJob prepare_part_job(const StageCommand& stage, const TrainCommand& command,
                                           HarmonicGraph& part);

/// The graph as --plan or --parts cuts it. A plan that does not cover it is an Error.
[[nodiscard]] std::vector<HarmonicGraph> parts_of(const TrainingJob& job);

[[nodiscard]] RuntimeOptions runtime_options(const TrainingJob& job);
[[nodiscard]] SecureOptions secure_options(const SecureFlags& flags);

/// A line on standard error, unless the command is to be quiet or there is nothing to say.
void notice(const TrainCommand& command, const std::string& text);

/// Who is told of steps and epochs besides the person at the terminal. Empty: nobody.
struct TrainingListener {
  std::function<void(const StepReport&)> on_step = {};
  std::function<void(const EpochReport&)> on_epoch = {};
  /// The learner is where the run begins; it may be put elsewhere.
  std::function<void(Learner&)> on_restored = {};
};

/// Starts or resumes the run, fits, and tells how it went. For RemoteScheduler, all parts must do
/// so; the digest is then that of the part.
[[nodiscard]] TrainReport run_job(Learner& learner, const TrainingJob& job,
                                  const InterruptWatch& watch, const TrainingListener& listener);

/// Prints the report in the command's style, and gives the exit code.
int finish_job(const TrainReport& report, const TrainCommand& command, const InterruptWatch& watch);

}  // namespace harmonics::inline in_torch_program
