#include "train_processes.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <variant>

#include <harmonics/base/clock.h>
#include <harmonics/base/entropy.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/cluster/task_environment.h>
#include <harmonics/console/terminal.h>
#include <harmonics/custody/chain.h>
#include <harmonics/custody/keys.h>
#include <harmonics/graph/partition.h>
#include <harmonics/schedule/checkpoint.h>
#include <harmonics/schedule/secure_run.h>
#include <harmonics/transport/transport.h>

#include "chain_files.h"
#include "checkpoint_stamp.h"
#include "elastic/elastic_run.h"
#include "inference/boundary_packing.h"
#include "part_children.h"
#include "stage_events.h"
#include "subcommands.h"
#include "train_progress.h"

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

void append_settings(std::vector<std::string>& words, const TrainCommand& command) {
  for (const auto& [name, value] : command.axes) {
    words.insert(words.end(), {"--axis", format("{}={}", name, value)});
  }
  for (const Binding& binding : command.bindings) {
    words.insert(words.end(), {"--bind", format("{}={}", binding.name, binding.spec)});
  }
  for (const Setting& setting : command.settings) {
    const TrainSettingRule& rule = *find_train_setting_rule(setting.key);
    std::ranges::move(setting_words(rule, setting.value), std::back_inserter(words));
  }
  std::ranges::move(bits_words(command.bits), std::back_inserter(words));
}

class ProcessRun {
 public:
  ProcessRun(const TrainingJob& job, const std::filesystem::path& checkpoint)
      : job_(job),
        checkpoint_(checkpoint),
        parts_(partition_graph(job.graph, static_cast<std::size_t>(job.settings.parts))),
        replicas_(static_cast<std::size_t>(job.settings.replicas)),
        token_(random_hex(kTokenBytes)),
        children_([this](std::size_t child) { return who(child); }) {
    static_cast<void>(packing_of(job.command.bits, parts_));  // wrong ones are said once, here
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i].taps().empty()) teller_ = i;
    }
  }

  /// The same where replicas may come and go; what one hands on to another goes to `state`.
  std::variant<TrainReport, Failure> attempt_elastic(bool resume,
                                                     const std::filesystem::path& state,
                                                     TrainProgress* progress,
                                                     const InterruptWatch& watch);
  /// The report of the part with the (last) tap, or why there is none.
  std::variant<TrainReport, Failure> attempt(bool resume, TrainProgress* progress,
                                             const InterruptWatch& watch);
  [[nodiscard]] std::size_t part_count() const { return parts_.size(); }
  /// What the parts signed last.
  [[nodiscard]] std::string proof() const;

 private:
  void prepare_chains(bool resume) const;
  void start(bool resume);
  [[nodiscard]] std::vector<std::string> arguments(std::size_t child, bool resume) const;
  [[nodiscard]] std::vector<std::string> environment(std::size_t child) const;
  void choose_places();
  /// Children are numbered replica by replica, in each part by part.
  [[nodiscard]] std::size_t count() const { return parts_.size() * replicas_; }
  [[nodiscard]] std::string who(std::size_t child) const;
  [[nodiscard]] std::function<bool(std::size_t)> has_report() const {
    return [this](std::size_t child) { return reports_[child].has_value(); };
  }
  void listen(TrainProgress* progress);
  [[nodiscard]] bool all_are_done() const;
  [[nodiscard]] std::optional<Failure> find_interrupted(Deadline end_due);

  const TrainingJob& job_;
  const std::filesystem::path checkpoint_;
  const std::vector<HarmonicGraph> parts_;
  const std::size_t replicas_;
  const std::string token_;
  std::size_t teller_ = 0;  // the child whose events are shown: a part of the first replica
  std::string run_;
  std::vector<std::map<std::string, std::string, std::less<>>> places_;  // by replica: URL by name
  std::vector<std::vector<std::string>> replica_places_;  // by part: URL of each replica
  PartChildren children_;
  std::vector<std::optional<TrainReport>> reports_;
  std::optional<Deadline> follow_due_;
  bool asked_to_end_ = false;
};

// Every boundary has a port (or a name of shared memory) of its own, and so has every copy of a
// part.
void ProcessRun::choose_places() {
  FreePlaces places(transport_from_name(job_.command.transport), job_.command.compress);
  places_.assign(replicas_, {});
  replica_places_.assign(parts_.size(), {});
  run_ = "train-" + random_hex(kRunNameBytes);
  for (std::size_t child = 0; child < count(); ++child) {
    const std::size_t part = child % parts_.size();
    for (const ConsumerNode& node : parts_[part].consumers()) {
      if (!is_boundary_name(node.name)) continue;
      places_[child / parts_.size()][node.name] = binding_url(places.next(node.name));
    }
    if (replicas_ > 1) replica_places_[part].push_back(binding_url(places.next("replicas")));
  }
}

std::variant<TrainReport, Failure> ProcessRun::attempt_elastic(bool resume,
                                                               const std::filesystem::path& state,
                                                               TrainProgress* progress,
                                                               const InterruptWatch& watch) {
  places_.assign(replicas_, {});
  replica_places_.assign(1, {});
  run_ = "train-" + random_hex(kRunNameBytes);
  const TrainCommand& command = job_.command;
  ElasticTerms terms;
  terms.replicas = replicas_;
  terms.restarts = command.restarts;
  terms.token = token_;
  terms.state_file = state;
  terms.arguments = [this, resume](std::size_t replica) { return arguments(replica, resume); };
  terms.environment = [this](std::size_t replica) { return environment(replica); };
  terms.choose_places = [&](std::size_t ranks) {
    FreePlaces places(transport_from_name(command.transport), command.compress);
    std::vector<std::string> urls;
    for (std::size_t i = 0; i < ranks; ++i) urls.push_back(binding_url(places.next("replicas")));
    return urls;
  };
  terms.notice = [&](const std::string& text) { notice(command, text); };
  return ElasticRun(std::move(terms)).run(progress, watch);
}

std::vector<std::string> ProcessRun::environment(std::size_t child) const {
  const std::vector<double>& factors = job_.command.slowdowns;
  if (factors.empty()) return {};
  return {format("{}={}", kTaskSlowdownVariable, factors[child / parts_.size()])};
}

std::string ProcessRun::who(std::size_t child) const {
  const std::string part = format("part {} of {}", child % parts_.size(), parts_.size());
  return replicas_ > 1 ? format("{} in replica {}", part, child / parts_.size()) : part;
}

std::vector<std::string> ProcessRun::arguments(std::size_t child, bool resume) const {
  const TrainCommand& command = job_.command;
  const std::size_t part = child % parts_.size();
  const std::size_t replica = child / parts_.size();
  std::vector<std::string> words = {"stage", command.file.string(), "--part", std::to_string(part)};
  append_settings(words, command);
  words.insert(words.end(), {"--run", run_, "--restarts", "0", "--first-contact",
                             std::to_string(kFirstContactSeconds), "--batches-per-epoch",
                             std::to_string(job_.data.batches_per_epoch), "--checkpoint",
                             checkpoint_.string(), "--checkpoint-every",
                             std::to_string(command.checkpoint_every), "--checkpoint-every-epochs",
                             std::to_string(command.checkpoint_every_epochs), "--output", "json"});
  if (resume) words.push_back("--resume");
  std::ranges::move(secure_words(command.secure, part), std::back_inserter(words));
  if (!command.weights.empty()) {
    words.insert(words.end(), {"--weights", command.weights.string()});
  }
  if (!command.metrics.empty() && child == teller_) {
    words.insert(words.end(), {"--metrics", command.metrics.string()});
  }
  if (replicas_ > 1) words.insert(words.end(), {"--replica", std::to_string(replica)});
  for (const std::string& url : replica_places_[part]) {
    words.insert(words.end(), {"--replica-place", url});
  }
  for (const auto& [name, url] : places_[replica]) {
    const bool enters = parts_[part].producer_index(name).has_value();
    const bool leaves = std::ranges::find(parts_[part].consumers(), name, &ConsumerNode::name) !=
                        parts_[part].consumers().end();
    if (enters || leaves) words.insert(words.end(), {"--boundary", url});
  }
  return words;
}

// Parts go on in their chains; where they begin again, those of an attempt before are set aside.
void ProcessRun::prepare_chains(bool resume) const {
  const SecureFlags& secure = job_.command.secure;
  if (secure.mode == SecureMode::kNone) return;
  static_cast<void>(signing_key(secure_options(secure)));  // made once, where there is none
  if (secure.proof.empty()) return;
  if (resume) {
    split_chain(secure.proof, parts_);
  } else {
    begin_chains(secure.proof, parts_.size(), "name another file or resume its run");
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
  choose_places();
  prepare_chains(resume);
  children_.clear();
  reports_.assign(count(), std::nullopt);
  follow_due_.reset();
  asked_to_end_ = false;
  for (std::size_t child = 0; child < count(); ++child) {
    children_.start(arguments(child, resume), token_, environment(child));
  }
}

void ProcessRun::listen(TrainProgress* progress) {
  children_.listen([&](std::size_t part, const std::string& line) {
    const StageEvent event = decode_event(line);
    if (const auto* report = std::get_if<TrainReport>(&event)) reports_[part] = *report;
    if (part != teller_ || progress == nullptr) return;
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
  return *reports_[teller_];
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
      if (!report->chain.empty()) join_chains(command.secure.proof, run.part_count());
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
