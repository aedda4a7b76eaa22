// RemoteAgreement: what parts of a run settle with those in other processes (private to schedule).
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <harmonics/schedule/remote_options.h>
#include <harmonics/schedule/run_agreement.h>

#include "checkpoint/run_checkpoint.h"
#include "parts/pipeline_runner.h"
#include "peers.h"

namespace harmonics::inline in_schedule {

/// Meets the neighbours of a row's parts and talks to them; RemoteRunner takes the batches through
/// the stages. After an Error the other parts are told by an Error of their own, and every further
/// call is one.
class RemoteAgreement final : public RunAgreement {
 public:
  /// `own` has one record for each part of the row, in its order; the row must outlive it.
  RemoteAgreement(const StageRow& row, Peers peers, std::vector<PartRecord> own,
                  const RemoteOptions& options);
  ~RemoteAgreement() override;

  /// Meets the other parts first, if that has not happened.
  [[nodiscard]] bool await_batch(std::uint64_t step) override;
  [[nodiscard]] std::int64_t rows(const NamedTensors& data) const override;
  [[nodiscard]] std::map<std::string, double> all_square_sums(std::map<std::string, double> own,
                                                              std::uint64_t step) override;
  void end_epoch() override;
  [[nodiscard]] bool learns() const override { return map_ && map_->learns(); }
  [[nodiscard]] bool paces_epochs() const override { return !fed_.empty(); }

  [[nodiscard]] FitTerms agree(const FitTerms& own, std::uint64_t step) override;
  [[nodiscard]] StreamTerms agree(const StreamTerms& own, std::uint64_t step) override;
  [[nodiscard]] TapReport all_taps(const TapReport& own, std::uint64_t step) override;
  [[nodiscard]] bool ends_after(std::uint64_t steps, bool wished) override;
  /// A file of this process, and the manifest once all processes have theirs.
  void save(const std::filesystem::path& path, std::uint64_t step,
            const WriteState& write) override;

  /// The newest saved step that all processes have under their paths, with the files that this one
  /// reads; step 0 without files when all are at the beginning, which an empty path is. None that
  /// all have is an Error that says what each has. From then on it counts as saved here.
  [[nodiscard]] SavedStep choose_saved_step(const std::filesystem::path& path, std::uint64_t step);
  /// The step that was saved or chosen last, with the files of all processes; nothing when there is
  /// none, or when it was one file.
  [[nodiscard]] const std::optional<SavedStep>& saved_step() const { return saved_; }

  /// What runs the stages here, once the parts have met.
  [[nodiscard]] PipelineRunner& pipeline();
  /// The same for a batch, which all parts must have cut alike.
  [[nodiscard]] PipelineRunner& pipeline_for(const SlicedBatch& batch);
  /// See BatchRunner; before the parts have met there is nothing to forget.
  void forget_rests() {
    if (pipeline_) pipeline_->forget_rests();
  }
  /// The step whose batch is due.
  [[nodiscard]] std::uint64_t step() const { return step_; }

  /// Meets the other parts, of which this step is due; does nothing once they have met.
  void meet(std::uint64_t step);
  /// How long this process has waited at its boundaries in all.
  [[nodiscard]] Nanoseconds waited() const { return peers_.waited(); }
  /// Once it has tried to meet the other parts, they depend on it.
  void abandon(const std::string& why) override;

 private:
  void check_alive() const;
  /// Copies of a part take whole batches: what shares one between them is an Error.
  void check_no_copies() const;
  [[nodiscard]] PartMap first_contact();
  [[nodiscard]] std::vector<PartPlace> places() const;
  /// Every home's text about a topic, by home; `own` is that of this one.
  [[nodiscard]] std::map<std::string, std::string> gather(Topic topic, std::string own,
                                                          std::uint64_t step);
  [[nodiscard]] Nanoseconds patience() const { return options_.pipeline.deadline; }
  [[nodiscard]] const std::string& name() const { return own_.front().name; }

  const StageRow& row_;
  Peers peers_;
  std::vector<PartRecord> own_;
  std::string home_;
  const RemoteOptions options_;
  bool begun_ = false;
  std::optional<PartMap> map_;
  std::optional<PipelineRunner> pipeline_;
  std::size_t width_ = 0;
  /// Boundaries that say when a batch is due; the other entering ones wait for what leaves here.
  std::set<std::string, std::less<>> fed_;
  std::map<std::string, std::size_t, std::less<>> part_of_;  // by entering boundary
  /// Of the batch under way, when neighbours send it.
  std::optional<BatchHead> head_;
  std::uint64_t step_ = 0;
  std::string mark_;  // of the files that this fit saves
  std::int64_t saves_ = 0;
  /// What all processes have saved, or begun with; nothing when that was another kind of file.
  std::optional<SavedStep> saved_;
  std::string stopped_by_;
};

}  // namespace harmonics::inline in_schedule
