#include "train_processes.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include <harmonics/base/clock.h>
#include <harmonics/base/entropy.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/console/terminal.h>
#include <harmonics/custody/chain.h>
#include <harmonics/custody/keys.h>
#include <harmonics/schedule/checkpoint.h>
#include <harmonics/schedule/secure_run.h>
#include <harmonics/transport/transport.h>

#include "chain_files.h"
#include "checkpoint_stamp.h"
#include "elastic/elastic_run.h"
#include "part_children.h"
#include "stage_events.h"
#include "subcommands.h"
#include "train_progress.h"
#include "training/run_seats.h"

namespace harmonics::inline in_torch_program {
namespace {

// How often the ends of children are looked for; their words wake this process at once.
constexpr int kPollMilliseconds = 100;
// How long the parts may take to save and end once that was asked for.
constexpr std::chrono::minutes kToEnd(10);
// Once one of them has ended without having saved, how long the others may take.
constexpr std::chrono::seconds kToFollow(10);
/// A folder that goes with the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "harmonics-run-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail_errno(errno, "cannot make a folder for the run");
    path_ = name;
  }
  ~ScratchFolder() {
    try {
      remove_tree(path_);
    } catch (const Error& error) {
      log_warn("train", "{}", error.what());
    }
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class ProcessRun {
 public:
  ProcessRun(const TrainingJob& job, const std::filesystem::path& checkpoint)
      : job_(job),
        seats_(job, checkpoint),
        token_(random_hex(kTokenBytes)),
        children_([this](std::size_t child) { return seats_.who(child); }) {}

  /// The same where replicas may come and go; what one hands on to another goes to `state`.
  std::variant<TrainReport, Failure> attempt_elastic(bool resume,
                                                     const std::filesystem::path& state,
                                                     TrainProgress* progress,
                                                     const InterruptWatch& watch);
  /// The report of the part with the (last) tap, or why there is none.
  std::variant<TrainReport, Failure> attempt(bool resume, TrainProgress* progress,
                                             const InterruptWatch& watch);
  [[nodiscard]] std::size_t part_count() const { return seats_.parts().size(); }
  /// Each part, or replica, has one.
  [[nodiscard]] std::size_t chain_count() const { return seats_.count(); }
  /// What the parts signed last.
  [[nodiscard]] std::string proof() const;

 private:
  void prepare_chains(bool resume) const;
  void start(bool resume);
  [[nodiscard]] std::function<bool(std::size_t)> has_report() const {
    return [this](std::size_t child) { return reports_[child].has_value(); };
  }
  void listen(TrainProgress* progress);
  [[nodiscard]] bool all_are_done() const;
  [[nodiscard]] std::optional<Failure> find_interrupted(Deadline end_due);

  const TrainingJob& job_;
  RunSeats seats_;
  const std::string token_;
  PartChildren children_;
  std::vector<std::optional<TrainReport>> reports_;
  std::optional<Deadline> follow_due_;
  bool asked_to_end_ = false;
};

std::variant<TrainReport, Failure> ProcessRun::attempt_elastic(bool resume,
                                                               const std::filesystem::path& state,
                                                               TrainProgress* progress,
                                                               const InterruptWatch& watch) {
  seats_.choose_no_places();
  const TrainCommand& command = job_.command;
  ElasticTerms terms;
  terms.replicas = seats_.replicas();
  terms.restarts = command.restarts;
  terms.token = token_;
  terms.state_file = state;
  terms.arguments = [this, resume](std::size_t replica) {
    return seats_.arguments(replica, resume);
  };
  terms.environment = [this](std::size_t replica) { return seats_.environment(replica); };
  terms.choose_places = [&](std::size_t ranks) {
    FreePlaces places(transport_from_name(command.transport), command.compress);
    std::vector<std::string> urls;
    for (std::size_t i = 0; i < ranks; ++i) urls.push_back(binding_url(places.next("replicas")));
    return urls;
  };
  terms.notice = [&](const std::string& text) { notice(command, text); };
  return ElasticRun(std::move(terms)).run(progress, watch);
}

// Parts go on in their chains; where they begin again, those of an attempt before are set aside.
void ProcessRun::prepare_chains(bool resume) const {
  const SecureFlags& secure = job_.command.secure;
  if (secure.mode == SecureMode::kNone) return;
  static_cast<void>(signing_key(secure_options(secure)));  // made once, where there is none
  if (secure.proof.empty()) return;
  if (seats_.replicas() > 1) {
    begin_replica_chains(job_.command, seats_.count());
  } else if (resume) {
    split_chain(secure.proof, seats_.parts());
  } else {
    begin_chains(secure.proof, part_count(), "name another file or resume its run");
  }
}

std::string ProcessRun::proof() const {
  std::string lines;
  for (const auto& report : reports_) {
    if (report && !report->proof.empty()) lines += (lines.empty() ? "" : "\n") + report->proof;
  }
  return lines;
}

void ProcessRun::start(bool resume) {
  seats_.choose_places();
  prepare_chains(resume);
  children_.clear();
  reports_.assign(seats_.count(), std::nullopt);
  follow_due_.reset();
  asked_to_end_ = false;
  for (std::size_t child = 0; child < seats_.count(); ++child) {
    children_.start(seats_.arguments(child, resume), token_, seats_.environment(child));
  }
}

void ProcessRun::listen(TrainProgress* progress) {
  children_.listen([&](std::size_t part, const std::string& line) {
    const StageEvent event = decode_event(line);
    if (const auto* report = std::get_if<TrainReport>(&event)) reports_[part] = *report;
    if (part != seats_.teller() || progress == nullptr) return;
    if (const auto* step = std::get_if<StepReport>(&event)) progress->on_step(*step);
    if (const auto* epoch = std::get_if<EpochReport>(&event)) progress->on_epoch(*epoch);
  });
}

bool ProcessRun::all_are_done() const {
  return std::ranges::all_of(reports_, [](const auto& report) { return report.has_value(); }) &&
         children_.all_have_ended();
}

// Parts that were asked to end and did so before they could save, or not at all.
std::optional<Failure> ProcessRun::find_interrupted(Deadline end_due) {
  const Deadline now = std::chrono::steady_clock::now();
  const bool all_ended = children_.all_have_ended();
  bool one_unsaved = false;
  for (std::size_t part = 0; part < children_.size(); ++part) {
    one_unsaved = one_unsaved || (children_.has_ended(part) && !reports_[part]);
  }
  if (one_unsaved && !follow_due_) follow_due_ = deadline_in(kToFollow);
  const bool is_over = one_unsaved && (all_ended || now > *follow_due_);
  if (!is_over && now <= end_due) return std::nullopt;
  const char* how = all_ended
                        ? "the parts ended before they had come to a common step"
                        : "the parts did not all end when they were asked to, and were killed";
  return Failure{how, false, true};
}

std::variant<TrainReport, Failure> ProcessRun::attempt(bool resume, TrainProgress* progress,
                                                       const InterruptWatch& watch) {
  start(resume);
  std::optional<Deadline> end_due;
  while (!all_are_done()) {
    children_.wait_for_words(kPollMilliseconds);
    listen(progress);
    if (std::optional<Failure> failure = children_.find_failure(has_report(), asked_to_end_)) {
      children_.clear();  // kills the others
      return std::move(*failure);
    }
    if (watch.requested() && !end_due) {
      children_.signal(SIGTERM);
      end_due = deadline_in(kToEnd);
      asked_to_end_ = true;
    }
    if (!end_due || all_are_done()) continue;
    if (std::optional<Failure> failure = find_interrupted(*end_due)) {
      children_.clear();
      return std::move(*failure);
    }
  }
  return *reports_[seats_.teller()];
}

// Parts go back to the newest step of which all files are there. A step back is said; the whole way
// back to the beginning is not gone.
void check_files(const TrainCommand& command, const std::filesystem::path& checkpoint) {
  if (!std::filesystem::exists(checkpoint) || !is_manifest(checkpoint)) return;
  const Manifest manifest = read_manifest(checkpoint);
  const auto lost = [&](const SavedStep& saved) -> std::string {
    for (const StageFile& stage : saved.stages) {
      if (!std::filesystem::exists(checkpoint.parent_path() / stage.file)) return stage.file;
    }
    return {};
  };
  const std::string missing = lost(manifest.latest);
  if (missing.empty()) return;
  const bool older =
      manifest.previous && !manifest.previous->stages.empty() && lost(*manifest.previous).empty();
  if (!older) {
    fail(ErrorCode::kDataLoss,
         "the checkpoint '{}' has lost '{}' of step {}, and no earlier step is whole: put the file "
         "back, or leave out --resume to begin anew",
         command.checkpoint.string(), missing, manifest.latest.step);
  }
  notice(
      command,
      format("the checkpoint '{}' has lost '{}' of step {}: the parts go back to step {}",
             command.checkpoint.string(), missing, manifest.latest.step, manifest.previous->step));
}

}  // namespace

int train_in_processes(const TrainingJob& job, InterruptWatch& watch) {
  const TrainCommand& command = job.command;
  std::optional<ScratchFolder> scratch;
  if (command.checkpoint.empty() || command.elastic) scratch.emplace();
  const std::filesystem::path checkpoint = command.checkpoint.empty()
                                               ? scratch->path() / "run"
                                               : std::filesystem::absolute(command.checkpoint);
  const std::filesystem::path handed_on = scratch ? scratch->path() / "state" : checkpoint;
  if (command.resume) check_files(command, checkpoint);
  const CheckpointStamp before(checkpoint);
  watch.step_done();  // the parts know whether there is work to lose
  const SteadyClock clock;
  ProcessRun run(job, checkpoint);
  std::optional<TrainProgress> progress;
  if (command.output == OutputStyle::kTable) progress.emplace(job.settings.epochs, 0, clock);
  bool resume = command.resume;
  for (std::int64_t restart = 0;; ++restart) {
    if (progress) progress->pause();
    TrainProgress* const shown = progress ? &*progress : nullptr;
    auto outcome = command.elastic ? run.attempt_elastic(resume, handed_on, shown, watch)
                                   : run.attempt(resume, shown, watch);
    if (progress) progress->clear();
    if (auto* report = std::get_if<TrainReport>(&outcome)) {
      report->weights_digest = weights_digest(checkpoint_weights(checkpoint));
      report->checkpoint = command.checkpoint.string();
      report->replicas = job.settings.replicas;
      report->micro_batches = job.settings.micro_batches;
      report->proof = run.proof();
      report->chain = command.secure.proof.string();
      if (!report->chain.empty()) join_chains(command.secure.proof, run.chain_count());
      return finish_job(*report, command, watch);
    }
    const Failure& failure = std::get<Failure>(outcome);
    if (failure.interrupted) {
      fail(ErrorCode::kCancelled, "{}; {}", failure.what,
           !command.checkpoint.empty() && (command.resume || before.has_changed())
               ? format("'{}' holds the run up to its last checkpoint, --resume goes on from there",
                        command.checkpoint.string())
               : "nothing was saved");
    }
    if (!failure.killed || restart >= command.restarts || watch.requested()) {
      fail(ErrorCode::kAborted, "{}{}", failure.what,
           failure.killed && restart > 0 ? format(" (after {} restarts)", restart) : "");
    }
    resume = command.resume || before.has_changed();
    notice(command,
           format("{}: all parts start again from {} (restart {} of {})", failure.what,
                  resume ? "the last checkpoint" : "the beginning", restart + 1, command.restarts));
  }
}

}  // namespace harmonics::inline in_torch_program
