#include "pipeline_runner.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/exception_text.h>
#include <harmonics/graph/sent_weights.h>
#include <harmonics/schedule/parallel_row.h>
#include <harmonics/schedule/secure_run.h>
#include <harmonics/transport/bus.h>

#include "part_stream.h"
#include "queued_transport.h"

namespace harmonics::inline in_schedule {
namespace {

// What waits on a bus is a tensor that its sender keeps for the backward pass anyway: the order of
// the pipeline bounds it, bytes need no bound of their own.
constexpr Window kBusWindow = {std::numeric_limits<std::uint64_t>::max() / 2, kMaxWindowMessages};

// Batches in flight in inference: enough to keep all parts busy.
constexpr std::size_t kBatchesPerPart = 2;
constexpr std::size_t kMostBatchesAhead = 64;

// What stopped a batch first. Parts that stop because a neighbour did come later.
class FirstStop {
 public:
  struct Cause {
    std::size_t part = 0;
    std::exception_ptr error;  // null: a loss that is not finite
  };

  void note(std::size_t part, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!cause_) cause_ = Cause{part, std::move(error)};
  }
  [[nodiscard]] bool noted() const {
    const std::lock_guard lock(mutex_);
    return cause_.has_value();
  }
  /// Once all parts are done.
  [[nodiscard]] const std::optional<Cause>& cause() const { return cause_; }

 private:
  mutable std::mutex mutex_;
  std::optional<Cause> cause_;
};

std::string cause_text(const FirstStop::Cause& cause) {
  if (cause.error == nullptr) return "a loss was not finite";
  try {
    std::rethrow_exception(cause.error);
  } catch (...) {
    return current_exception_text();
  }
}

// Closing may fail where the other end is gone already: that is what it is closed for.
void hang_up_quietly(Transport& end) {
  try {
    end.close(deadline_in({}));
  } catch (const Error&) {
  }
}

}  // namespace

PipelineRunner::PipelineRunner(const StageRow& row, const PipelineOptions& options,
                               int compute_threads, std::vector<PartPlace> places)
    : boundaries_(row.boundaries()),
      options_(options),
      places_(std::move(places)),
      secure_(row.custody()) {
  check_gradient_slots(row);
  choose_bits(row);
  const PartPlace& first = places_.front();
  if (!first.links.empty()) {
    copies_.emplace(CopyGradients::Place{first.turns, first.copy, first.links, options_.deadline});
  }
  has_outside_ = std::ranges::any_of(places_, [](const PartPlace& place) {
    return !place.outside.entering.empty() || !place.outside.leaving.empty();
  });
  if (row.stages().size() > kMaxPipelineParts) {
    fail(ErrorCode::kResourceExhausted,
         "{} parts are too many to work at the same time, at most {}: choose the order "
         "sequential, or cut into fewer parts",
         row.stages().size(), kMaxPipelineParts);
  }
  for (std::size_t i = 0; row.stages().size() > 1 && i < row.stages().size(); ++i) {
    threads_.push_back(std::make_unique<PartThread>(compute_threads));
    queues_.push_back(DeviceQueue::make(row.stages()[i]->device()));
  }
  connect();
}

SliceResults PipelineRunner::run(std::span<Stage> stages, const SlicedBatch& batch) {
  const auto count = static_cast<std::uint32_t>(batch.micro_batches.size());
  // A micro-batch alone gains nothing from threads.
  if (count == 1 && !has_outside_ && secure_ == nullptr && !packs()) {
    return make_sequential_runner()->run(stages, batch);
  }
  auto results = drive_all(stages, [&](std::size_t part, StageDriver& driver, const auto& stop) {
    if (copies_) {
      driver.set_after_backward([&](const MicroBatch& done) { copies_->take(done, stages[part]); });
    } else if (!has_outside_) {
      driver.let_taps_come_late();
    }
    const auto passes = pipeline_passes(options_.order, count, places_[part].depth);
    SliceResults made = driver.run(passes, batch, stop);
    if (made.finite && copies_) {
      std::uint64_t known = ends_after_;
      copies_->reduce(stages[part], batch, made.taps, known);
      lower(ends_after_, known);
    }
    return made;
  });
  if (!results) return {{}, {}, false};
  SliceResults all;
  all.taps.resize(count);
  if (batch.keep_outputs) all.outputs.resize(count);
  for (SliceResults& part : *results) {
    for (std::size_t i = 0; i < all.taps.size(); ++i) all.taps[i] += part.taps[i];
    for (std::size_t i = 0; i < all.outputs.size(); ++i) all.outputs[i].merge(part.outputs[i]);
  }
  return all;
}

std::vector<Computed> PipelineRunner::compute(std::span<Stage> stages,
                                              std::span<const NamedTensors> batches, bool measure) {
  // A batch alone gains nothing from threads.
  if (batches.size() == 1 && secure_ == nullptr && !packs()) {
    return BatchRunner::compute(stages, batches, measure);
  }
  SlicedBatch numbered;
  const std::uint64_t step = computed_++;
  for (const NamedTensors& batch : batches) {
    const auto index = static_cast<std::uint32_t>(numbered.slices.size());
    numbered.micro_batches.push_back({step, index, 0, batch_rows(batch)});
    numbered.slices.push_back(batch);
  }
  return compute(stages, numbered, measure);
}

std::vector<Computed> PipelineRunner::compute(std::span<Stage> stages, const SlicedBatch& batches,
                                              bool measure) {
  auto results = drive_all(stages, [&](std::size_t, StageDriver& driver, const auto& stop) {
    return driver.compute(batches, measure, stop);
  });
  std::vector<Computed> all(batches.slices.size());
  for (SliceResults& part : *results) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].taps += part.taps[i];
      all[i].outputs.merge(part.outputs[i]);
    }
  }
  return all;
}

std::int64_t PipelineRunner::own_batch(std::int64_t number) const {
  const PartPlace& place = places_.front();
  return static_cast<std::int64_t>(
      place.turns.next_of(place.copy, static_cast<std::uint64_t>(number)));
}

std::size_t PipelineRunner::batches_ahead() const {
  if (threads_.empty()) return 1;
  return std::min(kBatchesPerPart * threads_.size(), kMostBatchesAhead);
}

std::optional<std::vector<SliceResults>> PipelineRunner::drive_all(std::span<Stage> stages,
                                                                   const Drive& drive) {
  std::vector<SliceResults> results(stages.size());
  const auto work = [&](std::size_t part, StageDriver& driver, const std::stop_token& stop) {
    results[part] = drive(part, driver, stop);
    return results[part].finite;
  };
  if (!drive_each(stages, work)) return std::nullopt;
  return results;
}

StreamOutcome PipelineRunner::stream(std::span<Stage> stages, const StreamWork& work) {
  StreamOutcome outcome;
  outcome.parts.resize(stages.size());
  std::atomic<bool> interrupted = false;
  const std::uint64_t base = computed_;
  std::atomic<std::uint64_t> reached = base;
  static_cast<void>(
      drive_each(stages, [&](std::size_t part, StageDriver& driver, const std::stop_token& stop) {
        std::map<std::string, std::size_t, std::less<>> rooms;
        for (const auto& [name, end] : driver.ends().leaving) {
          rooms.emplace(name, work.share * span_of(part, name));
        }
        const PartPlace& place = places_[part];
        PartStream one(driver, work, {part, base, std::move(rooms), place.turns, place.copy});
        outcome.parts[part] = one.run(stop);
        if (one.interrupted()) interrupted = true;
        for (std::uint64_t known = reached;
             known < one.next_step() && !reached.compare_exchange_weak(known, one.next_step());) {
        }
        return true;
      }));
  computed_ = reached;
  outcome.interrupted = interrupted;
  return outcome;
}

std::size_t PipelineRunner::span_of(std::size_t part, const std::string& leaving) const {
  const auto outside = places_[part].spans.find(leaving);
  if (outside != places_[part].spans.end()) return outside->second;
  const auto inside = std::ranges::find(boundaries_, leaving, &RowBoundary::name);
  if (inside == boundaries_.end()) return 1;
  return std::max<std::size_t>(1, places_[part].depth - places_[inside->to].depth);
}

bool PipelineRunner::drive_each(std::span<Stage> stages, const Work& work) {
  if (secure_ != nullptr) secure_->begin();
  if (broken_) connect();
  FirstStop first;
  std::stop_source stop;
  for_each(stages, [&](std::size_t part, Stage& stage) {
    try {
      StageCustody* const custody = secure_ == nullptr ? nullptr : &secure_->part(part);
      StageDriver driver(stage, ends_[part], options_.deadline, ends_after_, custody);
      if (!work(part, driver, stop.get_token())) first.note(part, nullptr);
    } catch (...) {
      first.note(part, std::current_exception());
    }
    // Wakes the others, which wait for tensors that will not come.
    if (first.noted() && stop.request_stop()) hang_up();
  });
  const auto& cause = first.cause();
  if (!cause) return true;
  broken_ = true;
  if (secure_ != nullptr) secure_->spoil(cause_text(*cause));
  if (cause->error == nullptr) return false;
  rethrow_for_part(cause->error, cause->part, stages.size(), stages[cause->part]->graph());
}

void PipelineRunner::for_each(std::span<Stage> stages,
                              const std::function<void(std::size_t, Stage&)>& visit) {
  if (threads_.empty()) {
    visit(0, stages.front());
    return;
  }
  std::vector<std::future<void>> done;
  for (std::size_t part = 0; part < stages.size(); ++part) {
    if (queues_[part] != nullptr) queues_[part]->follow_caller();
    done.push_back(threads_[part]->post([&, part] {
      const DeviceQueue::Use here(queues_[part].get());
      visit(part, stages[part]);
    }));
  }
  for (const std::future<void>& one : done) one.wait();  // all, before anything is thrown
  for (const std::unique_ptr<DeviceQueue>& queue : queues_) {
    if (queue != nullptr) queue->lead_caller();
  }
  for (std::size_t part = 0; part < stages.size(); ++part) {
    try {
      done[part].get();
    } catch (...) {
      rethrow_for_part(std::current_exception(), part, stages.size(), stages[part]->graph());
    }
  }
}

void PipelineRunner::check_gradient_slots(const StageRow& row) const {
  for (const RowBoundary& boundary : boundaries_) {
    const HarmonicGraph& from = row.stages()[boundary.from]->graph();
    const HarmonicGraph& to = row.stages()[boundary.to]->graph();
    const auto awaited =
        std::ranges::find(from.consumers(), boundary.name, &ConsumerNode::name)->gradient_slots;
    const auto sent = to.producers()[*to.producer_index(boundary.name)].gradient_slots;
    if (awaited == sent) continue;
    fail(ErrorCode::kInvalidArgument,
         "boundary '{}': part {} waits for {} gradients and part {} sends {}; declare the same "
         "number at both ends",
         boundary.name, boundary.from, awaited, boundary.to, sent);
  }
}

// Parameters that travel to tied layers stay exact.
void PipelineRunner::choose_bits(const StageRow& row) {
  if (!options_.packing.packs()) return;
  const auto choose = [&](const std::string& boundary, bool is_weight) {
    const BoundaryBits bits = options_.packing.of(boundary);
    if (is_boundary_name(boundary) && bits.packs() && !is_weight) bits_.emplace(boundary, bits);
  };
  for (const Stage& stage : row.stages()) {
    const HarmonicGraph& part = stage->graph();
    for (const ProducerNode& node : part.producers()) {
      choose(node.name, brings_weight(part, node.name));
    }
    for (const ConsumerNode& node : part.consumers()) {
      choose(node.name, is_sent_weight(part, node.input));
    }
  }
}

void PipelineRunner::forget_rests() {
  for (StageEnds& ends : ends_) ends.rests = {};
}

void PipelineRunner::connect() {
  buses_.clear();
  ends_.clear();
  for (const PartPlace& place : places_) {
    StageEnds& ends = ends_.emplace_back(place.outside);
    ends.turns = place.turns;
    ends.copy = place.copy;
  }
  for (const RowBoundary& boundary : boundaries_) {
    auto [sender, receiver] = make_bus(boundary.name, kBusWindow);
    if (queues_[boundary.from] != nullptr || queues_[boundary.to] != nullptr) {
      const auto there = std::make_shared<DeviceHandover>();
      const auto back = std::make_shared<DeviceHandover>();
      sender = std::make_unique<QueuedTransport>(std::move(sender), there, back);
      receiver = std::make_unique<QueuedTransport>(std::move(receiver), back, there);
    }
    ends_[boundary.from].leaving.emplace(boundary.name, BoundaryCarrier{{sender.get()}});
    ends_[boundary.to].entering.emplace(boundary.name, BoundaryCarrier{{receiver.get()}});
    buses_.push_back(std::move(sender));
    buses_.push_back(std::move(receiver));
  }
  for (StageEnds& ends : ends_) {
    for (auto* side : {&ends.entering, &ends.leaving}) {
      for (auto& [name, end] : *side) {
        if (const auto bits = bits_.find(name); bits != bits_.end()) end.bits = bits->second;
      }
    }
  }
  broken_ = false;
}

// A row of one has nobody to wake here; whoever owns its boundaries says farewell to the others.
void PipelineRunner::hang_up() {
  if (threads_.empty()) return;
  for (const StageEnds& ends : ends_) {
    for (const auto* side : {&ends.entering, &ends.leaving}) {
      for (const auto& [name, end] : *side) {
        for (Transport* const channel : end.channels) hang_up_quietly(*channel);
      }
    }
  }
}

std::unique_ptr<BatchRunner> make_pipeline_runner(const StageRow& row,
                                                  const PipelineOptions& options,
                                                  int compute_threads, const PartCopies& copies) {
  std::vector<PartPlace> places(row.stages().size());
  places.front().turns = copies.turns;
  places.front().copy = copies.copy;
  for (std::size_t part = 0; part < places.size(); ++part) {
    places[part].depth = places.size() - part;
  }
  return std::make_unique<PipelineRunner>(row, options, compute_threads, std::move(places));
}

void make_parallel(StageRow& row, int compute_threads, const PipelineOptions& pipeline) {
  row.set_runner(make_pipeline_runner(row, pipeline, compute_threads));
}

}  // namespace harmonics::inline in_schedule
