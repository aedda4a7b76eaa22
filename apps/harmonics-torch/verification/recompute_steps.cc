#include "verification/recompute_steps.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/chain_accounts.h>
#include <harmonics/graph/partition.h>
#include <harmonics/runtime/safetensors.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/schedule/recompute.h>
#include <harmonics/schedule/stretch_choice.h>

#include "training_job.h"

namespace harmonics::inline in_torch_program {
namespace {

constexpr std::size_t kMaxCheckpoints = 100'000;

// A folder that goes with its object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "harmonics-audit-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail_errno(errno, format("cannot make '{}'", name));
    path_ = name;
  }
  ~ScratchFolder() { remove_tree(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The steps that a checkpoint has behind it; nothing where the file is none.
std::optional<std::uint64_t> steps_of(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file)) return std::nullopt;
  std::map<std::string, std::string> metadata;
  try {
    metadata = read_safetensors_metadata(file);
  } catch (const Error&) {
    return std::nullopt;  // a folder may hold other files
  }
  const auto state = metadata.find("harmonics");
  if (state == metadata.end()) return std::nullopt;
  return static_cast<std::uint64_t>(
      Json::parse(state->second, file.string()).at("steps").as_integer());
}

std::map<std::uint64_t, std::filesystem::path> find_checkpoints(const VerifyCommand& command) {
  std::map<std::uint64_t, std::filesystem::path> found;
  const auto add = [&](const std::filesystem::path& file) {
    const std::optional<std::uint64_t> steps = steps_of(file);
    if (steps && *steps > 0) found.emplace(*steps, file);
    return steps.has_value();
  };
  for (const std::filesystem::path& path : command.checkpoints) {
    if (!std::filesystem::is_directory(path)) {
      if (!add(path)) {
        fail(ErrorCode::kInvalidArgument, "'{}' is no checkpoint of a run in one process",
             path.string());
      }
      continue;
    }
    for (const std::filesystem::path& file : list_folder(path)) {
      if (found.size() == kMaxCheckpoints) {
        fail(ErrorCode::kResourceExhausted, "there are more than {} checkpoints", kMaxCheckpoints);
      }
      add(file);
    }
  }
  return found;
}

// The run as its checkpoints and the model's file describe it.
TrainingJob job_of(const VerifyCommand& command,
                   const std::map<std::uint64_t, std::filesystem::path>& checkpoints) {
  TrainCommand training;
  training.file = command.graphs.front();
  training.settings = command.settings;
  training.bindings = command.data;
  training.output = OutputStyle::kQuiet;
  if (!checkpoints.empty()) {
    training.checkpoint = checkpoints.begin()->second;
    training.resume = true;
  }
  return prepare_job(training);
}

// What computes a run again.
class Auditor {
 public:
  Auditor(const VerifyCommand& command, const Evidence& evidence, std::size_t parts)
      : checkpoints_(find_checkpoints(command)),
        job_(job_of(command, checkpoints_)),
        suspect_(accounts_of(evidence.chains)),
        reproducible_(evidence.chains.front().opening.reproducible),
        parts_(parts) {
    if (steps_in(suspect_) == 0) {
      fail(ErrorCode::kInvalidArgument, "the chain has no steps of learning to compute again");
    }
  }

  [[nodiscard]] const ChainAccounts& suspect() const { return suspect_; }
  [[nodiscard]] std::vector<AuditStretch> stretches() const {
    return stretches_between(checkpoints_, steps_in(suspect_));
  }

  /// The account of a stretch that is right, after `suspect` was found to agree with it.
  ChainAccounts check(const AuditStretch& stretch) {
    ChainAccounts right = compute(stretch);
    const auto found = first_disagreement(suspect_, right, stretch.first, stretch.end);
    if (found) refuse(stretch, *found);
    return right;
  }
  ChainAccounts compute(const AuditStretch& stretch) {
    const Chain chain = recompute(
        stretch, suspect_, [this](const SecureOptions& secure) { return learner(secure); },
        scratch_.path());
    steps_ += stretch.end - stretch.first;
    return accounts_of(std::span(&chain, 1));
  }
  [[noreturn]] void refuse(const AuditStretch& stretch, const Disagreement& found) const {
    if (found.kind == Disagreement::Kind::kWeights && found.step == stretch.first) {
      fail_custody(
          Breach::kWrongWeights,
          "'{}' does not hold the weights that part '{}' signed at step {}: their root is "
          "{}, the signed one is {}",
          stretch.checkpoint.empty() ? "the start of the model" : stretch.checkpoint.string(),
          found.stage, found.step, digest_text(found.theirs), digest_text(found.ours));
    }
    fail_custody(Breach::kWrongResult, "{} ({} step(s) were computed again)",
                 disagreement_text(found), steps_);
  }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

 private:
  std::unique_ptr<Learner> learner(const SecureOptions& secure) {
    RuntimeOptions options = runtime_options(job_);
    options.secure = secure;
    options.reproducible = reproducible_;  // the chain says in which arithmetic
    if (job_.resumed) options.schedule.total_steps = job_.resumed->schedule.total_steps;
    std::unique_ptr<Learner> made;
    if (parts_ == 1) {
      made = std::make_unique<CycleRuntime>(job_.graph, options);
    } else {
      made = std::make_unique<DistributedScheduler>(partition_graph(job_.graph, parts_),
                                                    DeploymentDescriptor{}, options);
    }
    for (const auto& [name, producer] : job_.data.train) made->bindProducer(name, producer);
    return made;
  }

  const std::map<std::uint64_t, std::filesystem::path> checkpoints_;
  const TrainingJob job_;
  const ChainAccounts suspect_;
  const bool reproducible_;
  const std::size_t parts_;
  const ScratchFolder scratch_;
  std::uint64_t steps_ = 0;
};

// The last stretch that begins at or before a step, cut off behind it.
AuditStretch up_to(const std::vector<AuditStretch>& all, std::uint64_t step) {
  const auto after = std::ranges::upper_bound(all, step, {}, &AuditStretch::first);
  AuditStretch stretch = *std::prev(after);
  stretch.end = step + 1;
  return stretch;
}

// Two accounts of one run: where they part is computed, and who is wrong is named.
void settle(const VerifyCommand& command, Auditor& auditor) {
  const Evidence evidence = read_evidence(command.against, command.keys);
  VerifyCommand other = command;
  other.files = command.against;
  other.model.clear();
  other.lines.clear();
  static_cast<void>(verify_evidence(other, evidence));
  const ChainAccounts theirs = accounts_of(evidence.chains);
  const std::uint64_t steps = std::min(steps_in(auditor.suspect()), steps_in(theirs));
  const auto parting = first_disagreement(auditor.suspect(), theirs, 0, steps);
  if (!parting) return;
  // Weights that differ were made by the step before.
  const bool weights = parting->kind == Disagreement::Kind::kWeights;
  const AuditStretch stretch =
      up_to(auditor.stretches(), weights && parting->step > 0 ? parting->step - 1 : parting->step);
  const ChainAccounts right = auditor.check(stretch);
  if (const auto wrong = first_disagreement(theirs, right, stretch.first, stretch.end)) {
    fail_custody(Breach::kWrongResult,
                 "the account of --against: {} ({} step(s) were computed again)",
                 disagreement_text(*wrong), auditor.steps());
  }
  fail(ErrorCode::kInternal, "the accounts part at step {}, and both are as computed again",
       parting->step + 1);
}

}  // namespace

RecomputedSteps recompute_steps(const VerifyCommand& command, const Evidence& evidence,
                                std::size_t parts) {
  Auditor auditor(command, evidence, parts);
  RecomputedSteps told;
  told.of = steps_in(auditor.suspect());
  told.of_stretches = auditor.stretches().size();
  if (!command.against.empty()) settle(command, auditor);
  if (!command.recompute.empty()) {
    const StretchChoice choice =
        choose_stretches(auditor.stretches(), command.recompute, command.draw);
    for (const AuditStretch& stretch : choice.stretches) static_cast<void>(auditor.check(stretch));
    told.stretches = choice.stretches.size();
    told.seed = choice.seed;
  }
  told.steps = auditor.steps();
  return told;
}

}  // namespace harmonics::inline in_torch_program
