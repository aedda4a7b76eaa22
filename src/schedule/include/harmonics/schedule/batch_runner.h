// BatchRunner: in which order, and on which threads, the micro-batches of a batch pass the stages.
//
// StageRow cuts the batch, adds up reports, clips and updates; how the passes in between are run
// is replaceable. Whatever the order, the answer is the same bit for bit.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <harmonics/runtime/stage.h>
#include <harmonics/schedule/stream.h>

namespace harmonics::inline in_schedule {

/// A batch cut into micro-batches. Unless it is dealt out to unlike replicas, rows are shared out
/// as evenly as they go, the first micro-batches taking the odd ones.
struct SlicedBatch {
  std::vector<MicroBatch> micro_batches;
  /// As many as there are micro-batches: the rows of the bound data, by producer.
  std::vector<NamedTensors> slices;
  /// The losses are multiplied by this in the backward pass.
  double loss_scale = 1.0;
  /// False: nobody reads SliceResults::outputs, so they need not be kept.
  bool keep_outputs = false;
};

/// Rows of a batch. An empty batch, or tensors of unequal length, are an Error that names them.
[[nodiscard]] std::int64_t batch_rows(const NamedTensors& batch);
/// What a part reads: its producers, from `received` (what earlier parts sent) or from the data.
[[nodiscard]] NamedTensors part_inputs(const HarmonicGraph& part, const NamedTensors& data,
                                       const NamedTensors& received);

/// Cuts a batch of `rows` into `count` micro-batches, or one per row where it has fewer. The batch
/// may be empty: then all of its data comes from other parts.
[[nodiscard]] SlicedBatch slice_batch(const NamedTensors& batch, std::int64_t rows,
                                      std::int64_t count, std::uint64_t step);
/// Cuts it into micro-batches of these numbers of rows.
[[nodiscard]] SlicedBatch slice_batch(const NamedTensors& batch,
                                      std::span<const std::int64_t> sizes, std::uint64_t step);
/// The rows of all shares, one after another.
[[nodiscard]] std::vector<std::int64_t> joined(const DealtRows& dealt);

/// What the micro-batches of a batch came to, in their order.
struct SliceResults {
  /// What the taps of all stages saw, added up in the order of the stages.
  std::vector<TapReport> taps;
  /// Tensors that left the stages, by consumer; boundaries between the stages may be among them.
  std::vector<NamedTensors> outputs;
  /// False when a loss was not finite: the passes were broken off, and the stages still hold the
  /// micro-batches in flight.
  bool finite = true;
};

/// Adds what the stage's forward passes have left for later (MicroBatch::only_learns).
void hear_late_taps(Stage& stage, SliceResults& results);

/// What a batch came to in evaluation mode.
struct Computed {
  /// By consumer; boundaries between the stages may be among them.
  NamedTensors outputs;
  /// What the taps of all stages saw; nothing unless it was asked for.
  TapReport taps;
};

/// The data that one part of a stream reads: passes over so many batches and gives the next one in
/// the declared shapes, nothing at the end. Empty for a part without data of its own.
using StreamFeed = std::function<std::optional<NamedTensors>(std::int64_t passed_over)>;

/// Where a part puts what it has made of a batch. Waits while others are far behind, up to
/// `deadline`. Any thread.
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  virtual void give(std::size_t part, StreamedBatch batch, const std::stop_token& stop) = 0;
};

/// A stream as a runner sees it.
struct StreamWork {
  /// One for each stage.
  std::vector<StreamFeed> feeds;
  std::int64_t first_batch = 0;
  /// Batches that a part may hold of a boundary that comes from the part before it.
  std::size_t share = 1;
  bool measure = false;
  const std::atomic<bool>* stop = nullptr;
  StreamSink* sink = nullptr;
  bool probe_carriers = false;

  [[nodiscard]] bool stop_wished() const { return stop != nullptr && stop->load(); }
};

/// What the parts here did in a stream.
struct StreamOutcome {
  std::vector<PartFlow> parts;
  bool interrupted = false;
};

/// Runs passes. One thread calls it; an implementation may compute on others. It keeps no reference
/// to the stages after a call.
class BatchRunner {
 public:
  virtual ~BatchRunner() = default;

  /// Takes every micro-batch forward and back through all stages. In each stage both passes happen
  /// in the order of the micro-batches, so that gradients add up alike under every schedule. An
  /// Error of a stage names its part and stops all others before it is thrown; the gradients that
  /// the stages hold are then worthless.
  [[nodiscard]] virtual SliceResults run(std::span<Stage> stages, const SlicedBatch& batch) = 0;

  /// Calls `visit` once for each stage, each on the thread that computes it; returns when all are
  /// done. Visits may run at the same time.
  virtual void for_each(std::span<Stage> stages,
                        const std::function<void(std::size_t, Stage&)>& visit) = 0;

  /// Takes every batch forward through all stages in evaluation mode; the answers are in the order
  /// of the batches. With `measure` the taps are computed, so that their targets must be there.
  [[nodiscard]] virtual std::vector<Computed> compute(std::span<Stage> stages,
                                                      std::span<const NamedTensors> batches,
                                                      bool measure);
  /// Takes batches through all stages in evaluation mode until the feeds end; the answers go to
  /// the sink in the order of the batches. As it stands, one batch after another on the caller's
  /// thread.
  [[nodiscard]] virtual StreamOutcome stream(std::span<Stage> stages, const StreamWork& work);
  /// True when `stream` gives what all stages made of a batch at once, as the last one.
  [[nodiscard]] virtual bool streams_whole() const { return true; }
  /// The first batch of a stream from `number` on that the stages here take: the others are those
  /// of their copies elsewhere.
  [[nodiscard]] virtual std::int64_t own_batch(std::int64_t number) const { return number; }
  /// How many batches `compute` is best given at once.
  [[nodiscard]] virtual std::size_t batches_ahead() const { return 1; }

  /// The rows of the micro-batches that a batch of a step is cut into, in their order, as the
  /// options say. A runner may take only some of them through its stages, the others being its
  /// copies' work.
  [[nodiscard]] virtual std::vector<std::int64_t> cut(std::int64_t rows,
                                                      const RuntimeOptions& options,
                                                      std::uint64_t step);
  /// How batches were dealt out to copies of the stages, where they were; else null.
  [[nodiscard]] virtual const BatchShares* dealt() const { return nullptr; }

  /// Drops what packing has taken from gradients and was to be added to the next ones. Called when
  /// the run is saved, so that who goes on from there makes the same steps.
  virtual void forget_rests() {}

  // Where copies of the stages learn elsewhere, each computing its share of a batch:

  /// Called when a fit begins: nobody wishes to end it yet.
  virtual void begin_fit() {}
  /// Called after each step: whether any of the copies wishes to end the fit. The own wish reaches
  /// the others with the next batch.
  [[nodiscard]] virtual bool wish_end(bool own) { return own; }
};

/// Called while a micro-batch is in flight in a stage, between its passes.
using AfterForward = std::function<void(Stage&, const MicroBatch&)>;

/// One thread; a micro-batch passes all stages, forward and back, before the next one starts.
[[nodiscard]] std::unique_ptr<BatchRunner> make_sequential_runner(AfterForward after_forward = {});

/// Throws `error`, an Error of part `index` of `count`, with the part's name in front. Errors of a
/// whole graph (a count of 1) stay as they are; so do exceptions that are no Error.
[[noreturn]] void rethrow_for_part(const std::exception_ptr& error, std::size_t index,
                                   std::size_t count, const HarmonicGraph& part);

}  // namespace harmonics::inline in_schedule
