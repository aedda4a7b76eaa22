#include "pipeline_runner.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/transport/bus.h>

#include "part_thread.h"
#include "stage_driver.h"

namespace harmonics {
namespace {

// What waits on a bus is a tensor that its sender keeps for the backward pass anyway: the order of
// the pipeline bounds it, bytes need no bound of their own.
constexpr Window kBusWindow = {std::numeric_limits<std::uint64_t>::max() / 2, kMaxWindowMessages};

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

class PipelineRunner final : public BatchRunner {
 public:
  PipelineRunner(const StageChain& chain, const PipelineOptions& options, int compute_threads)
      : boundaries_(chain.boundaries()), options_(options) {
    check_gradient_slots(chain);
    if (chain.stages().size() > kMaxPipelineParts) {
      fail(ErrorCode::kResourceExhausted,
           "{} parts are too many to work at the same time, at most {}: choose the order "
           "sequential, or cut into fewer parts",
           chain.stages().size(), kMaxPipelineParts);
    }
    for (std::size_t i = 0; i < chain.stages().size(); ++i) {
      threads_.push_back(std::make_unique<PartThread>(compute_threads));
    }
    connect();
  }

  SliceResults run(std::span<Stage> stages, const SlicedBatch& batch) override {
    if (broken_) connect();
    FirstStop first;
    std::stop_source stop;
    std::vector<SliceResults> results(stages.size());
    for_each(stages, [&](std::size_t part, Stage& stage) {
      try {
        results[part] = drive(stages.size() - part, stage, batch, stop.get_token(), ends_[part]);
        if (!results[part].finite) first.note(part, nullptr);
      } catch (...) {
        first.note(part, std::current_exception());
      }
      if (first.noted()) stop.request_stop();
      if (stop.stop_requested()) hang_up(part);
    });
    if (const auto& cause = first.cause()) {
      broken_ = true;
      if (cause->error == nullptr) return {{}, {}, false};
      rethrow_for_part(cause->error, cause->part, stages.size(), stages[cause->part].graph());
    }
    return joined(std::move(results), batch);
  }

  void for_each(std::span<Stage> stages,
                const std::function<void(std::size_t, Stage&)>& visit) override {
    std::vector<std::future<void>> done;
    for (std::size_t part = 0; part < stages.size(); ++part) {
      done.push_back(threads_[part]->post([&, part] { visit(part, stages[part]); }));
    }
    for (const std::future<void>& one : done) one.wait();  // all, before anything is thrown
    for (std::size_t part = 0; part < stages.size(); ++part) {
      try {
        done[part].get();
      } catch (...) {
        rethrow_for_part(std::current_exception(), part, stages.size(), stages[part].graph());
      }
    }
  }

 private:
  void check_gradient_slots(const StageChain& chain) const {
    for (const ChainBoundary& boundary : boundaries_) {
      const HarmonicGraph& from = chain.stages()[boundary.from].graph();
      const HarmonicGraph& to = chain.stages()[boundary.to].graph();
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

  void connect() {
    buses_.clear();
    ends_.assign(threads_.size(), {});
    for (const ChainBoundary& boundary : boundaries_) {
      auto [sender, receiver] = make_bus(boundary.name, kBusWindow);
      ends_[boundary.from].leaving.emplace(boundary.name, sender.get());
      ends_[boundary.to].entering.emplace(boundary.name, receiver.get());
      buses_.push_back(std::move(sender));
      buses_.push_back(std::move(receiver));
    }
    broken_ = false;
  }

  SliceResults drive(std::size_t depth, Stage& stage, const SlicedBatch& batch,
                     const std::stop_token& stop, StageEnds& ends) const {
    const auto passes = pipeline_passes(
        options_.order, static_cast<std::uint32_t>(batch.micro_batches.size()), depth);
    return StageDriver(stage, ends, options_.deadline).run(passes, batch, stop);
  }

  // Wakes the neighbours, which wait for tensors that will not come.
  void hang_up(std::size_t part) {
    for (const auto& [name, end] : ends_[part].entering) end->close(deadline_in({}));
    for (const auto& [name, end] : ends_[part].leaving) end->close(deadline_in({}));
  }

  static SliceResults joined(std::vector<SliceResults> parts, const SlicedBatch& batch) {
    SliceResults all;
    all.taps.resize(batch.micro_batches.size());
    if (batch.keep_outputs) all.outputs.resize(batch.micro_batches.size());
    for (SliceResults& part : parts) {
      for (std::size_t i = 0; i < all.taps.size(); ++i) all.taps[i] += part.taps[i];
      for (std::size_t i = 0; i < all.outputs.size(); ++i) all.outputs[i].merge(part.outputs[i]);
    }
    return all;
  }

  const std::vector<ChainBoundary> boundaries_;
  const PipelineOptions options_;
  std::vector<std::unique_ptr<PartThread>> threads_;
  std::vector<TransportPtr> buses_;
  std::vector<StageEnds> ends_;  // by part
  bool broken_ = false;
};

}  // namespace

std::unique_ptr<BatchRunner> make_pipeline_runner(const StageChain& chain,
                                                  const PipelineOptions& options,
                                                  int compute_threads) {
  return std::make_unique<PipelineRunner>(chain, options, compute_threads);
}

}  // namespace harmonics
