// PipelineRunner: the parts of a row at work at the same time, one thread each (private to
// schedule).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/runtime/device_queue.h>
#include <harmonics/schedule/pipeline.h>
#include <harmonics/schedule/stage_row.h>

#include "copy_gradients.h"
#include "part_thread.h"
#include "remote/wire.h"
#include "stage_driver.h"

namespace harmonics::inline in_schedule {

/// What a runner knows of each part, in the order of the row.
struct PartPlace {
  /// Parts from this one to the last of the whole run, both included.
  std::size_t depth = 1;
  /// Boundaries to parts that are elsewhere.
  StageEnds outside;
  /// How many parts further on each of those leads that leave.
  std::map<std::string, std::size_t, std::less<>> spans = {};
  /// How the copies of this part take turns, and which this one is.
  CopyTurns turns = {};
  std::size_t copy = 0;
  /// To those copies, where they learn (CopyGradients::Place).
  std::vector<Transport*> links = {};
};

/// Boundaries between the parts here are buses. An Error or a loss that is not finite in one part
/// stops all parts within the batch; unless parts are elsewhere or the run is secure, the next
/// batch starts afresh. A row of one part computes on the caller's thread. When the row has a
/// custody, every tensor on a boundary is signed, and checked before it is used.
class PipelineRunner final : public BatchRunner {
 public:
  /// Ends of a boundary that disagree about gradients, or more than kMaxPipelineParts parts, are an
  /// Error. `places` has one entry for each part; what they name must outlive the runner.
  PipelineRunner(const StageRow& row, const PipelineOptions& options, int compute_threads,
                 std::vector<PartPlace> places);

  [[nodiscard]] SliceResults run(std::span<Stage> stages, const SlicedBatch& batch) override;
  [[nodiscard]] std::vector<Computed> compute(std::span<Stage> stages,
                                              std::span<const NamedTensors> batches,
                                              bool measure) override;
  /// The same for batches whose numbers are known.
  [[nodiscard]] std::vector<Computed> compute(std::span<Stage> stages, const SlicedBatch& batches,
                                              bool measure);
  [[nodiscard]] StreamOutcome stream(std::span<Stage> stages, const StreamWork& work) override;
  [[nodiscard]] bool streams_whole() const override { return false; }
  [[nodiscard]] std::int64_t own_batch(std::int64_t number) const override;
  [[nodiscard]] std::size_t batches_ahead() const override;
  void for_each(std::span<Stage> stages,
                const std::function<void(std::size_t, Stage&)>& visit) override;
  void forget_rests() override;

  /// The number of a batch that only computes: of each one, once.
  [[nodiscard]] std::uint64_t next_computed() { return computed_++; }
  [[nodiscard]] StageEnds& ends(std::size_t part) { return ends_[part]; }
  /// Steps after which the run ends; kNoEnd while nobody wants that.
  [[nodiscard]] std::atomic<std::uint64_t>& ends_after() { return ends_after_; }

 private:
  using Work = std::function<bool(std::size_t part, StageDriver&, const std::stop_token&)>;
  using Drive = std::function<SliceResults(std::size_t part, StageDriver&, const std::stop_token&)>;
  /// Calls `work` for every part at the same time. False when one of them said so: a loss was not
  /// finite.
  [[nodiscard]] bool drive_each(std::span<Stage> stages, const Work& work);
  /// What the parts' drivers gave, or nothing when a loss was not finite.
  [[nodiscard]] std::optional<std::vector<SliceResults>> drive_all(std::span<Stage> stages,
                                                                   const Drive& drive);
  [[nodiscard]] std::size_t span_of(std::size_t part, const std::string& leaving) const;
  void check_gradient_slots(const StageRow& row) const;
  void choose_bits(const StageRow& row);
  [[nodiscard]] bool packs() const { return !bits_.empty(); }
  void connect();
  void hang_up();

  const std::vector<RowBoundary> boundaries_;
  const PipelineOptions options_;
  const std::vector<PartPlace> places_;
  std::map<std::string, BoundaryBits, std::less<>> bits_;  // of boundaries that are packed
  SecureRun* const secure_;
  std::vector<std::unique_ptr<PartThread>> threads_;  // none for a row of one
  std::vector<std::unique_ptr<DeviceQueue>> queues_;  // of parts on a GPU, where there are threads
  std::vector<TransportPtr> buses_;
  std::vector<StageEnds> ends_;  // by part
  std::optional<CopyGradients> copies_;
  std::atomic<std::uint64_t> ends_after_{kNoEnd};
  bool has_outside_ = false;
  bool broken_ = false;
  std::uint64_t computed_ = 0;  // calls so far: the steps of what only computes
};

/// A runner for parts that are all here; `copies` is that of a row of one part.
[[nodiscard]] std::unique_ptr<BatchRunner> make_pipeline_runner(const StageRow& row,
                                                                const PipelineOptions& options,
                                                                int compute_threads,
                                                                const PartCopies& copies = {});

}  // namespace harmonics::inline in_schedule
