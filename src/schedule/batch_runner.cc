#include <harmonics/schedule/batch_runner.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>
#include <utility>

#include <harmonics/base/clock.h>
#include <harmonics/base/error.h>

namespace harmonics::inline in_schedule {
namespace {

class SequentialRunner final : public BatchRunner {
 public:
  explicit SequentialRunner(AfterForward after_forward)
      : after_forward_(std::move(after_forward)) {}

  SliceResults run(std::span<Stage> stages, const SlicedBatch& batch) override {
    SliceResults results;
    for (std::size_t i = 0; i < batch.micro_batches.size() && results.finite; ++i) {
      MicroBatch micro_batch = batch.micro_batches[i];
      micro_batch.only_learns = !after_forward_ && !batch.keep_outputs;
      NamedTensors outputs;
      TapReport taps;
      for_each(stages, [&](std::size_t, Stage& stage) {
        TapReport own;
        outputs.merge(stage->forward(micro_batch,
                                     part_inputs(stage->graph(), batch.slices[i], outputs), own));
        taps += own;
        if (after_forward_) after_forward_(stage, micro_batch);
      });
      results.finite = std::isfinite(taps.loss_sum);
      results.taps.push_back(taps);
      if (!results.finite) break;
      NamedTensors gradients;
      for (std::size_t part = stages.size(); part-- > 0;) {
        visit_part(stages, part, [&](std::size_t, Stage& stage) {
          gradients.merge(stage->backward(micro_batch, gradients, batch.loss_scale));
        });
      }
      if (batch.keep_outputs) results.outputs.push_back(std::move(outputs));
    }
    if (!results.finite) return results;
    for_each(stages, [&](std::size_t, Stage& stage) { hear_late_taps(stage, results); });
    return results;
  }

  void for_each(std::span<Stage> stages,
                const std::function<void(std::size_t, Stage&)>& visit) override {
    for (std::size_t part = 0; part < stages.size(); ++part) visit_part(stages, part, visit);
  }

 private:
  static void visit_part(std::span<Stage> stages, std::size_t part,
                         const std::function<void(std::size_t, Stage&)>& visit) {
    try {
      visit(part, stages[part]);
    } catch (...) {
      rethrow_for_part(std::current_exception(), part, stages.size(), stages[part]->graph());
    }
  }

  const AfterForward after_forward_;
};

// The next batch of the data of all parts; nothing once it has ended.
std::optional<NamedTensors> next_of_all(const std::vector<StreamFeed>& feeds) {
  NamedTensors batch;
  std::size_t read = 0;
  std::size_t ended = 0;
  for (const StreamFeed& feed : feeds) {
    if (!feed) continue;
    std::optional<NamedTensors> some = feed(0);
    ++(some ? read : ended);
    if (some) batch.merge(*some);
  }
  if (read > 0 && ended > 0) {
    fail(ErrorCode::kInvalidArgument,
         "the data of some producers ended before that of others: all must be equally long");
  }
  if (read == 0) return std::nullopt;
  return batch;
}

}  // namespace

void hear_late_taps(Stage& stage, SliceResults& results) {
  for (const auto& [index, taps] : stage->late_taps()) {
    results.taps.at(index) += taps;
    results.finite = results.finite && std::isfinite(taps.loss_sum);
  }
}

std::int64_t batch_rows(const NamedTensors& batch) {
  if (batch.empty() || batch.begin()->second.shape().empty()) {
    fail(ErrorCode::kInvalidArgument, "a batch needs at least one tensor with a batch axis");
  }
  const std::int64_t rows = batch.begin()->second.shape()[0];
  for (const auto& [name, tensor] : batch) {
    const std::int64_t own = tensor.shape().empty() ? 0 : tensor.shape()[0];
    if (own != rows) {
      fail(ErrorCode::kInvalidArgument, "'{}' brings {} rows and '{}' brings {}: they must agree",
           batch.begin()->first, rows, name, own);
    }
  }
  if (rows == 0) fail(ErrorCode::kInvalidArgument, "a batch of no rows");
  return rows;
}

NamedTensors part_inputs(const HarmonicGraph& part, const NamedTensors& data,
                         const NamedTensors& received) {
  NamedTensors inputs;
  for (const ProducerNode& node : part.producers()) {
    if (const auto crossing = received.find(node.name); crossing != received.end()) {
      inputs.emplace(node.name, crossing->second);
    } else if (const auto given = data.find(node.name); given != data.end()) {
      inputs.emplace(node.name, given->second);
    }
  }
  return inputs;
}

SlicedBatch slice_batch(const NamedTensors& batch, std::int64_t rows, std::int64_t count,
                        std::uint64_t step) {
  return slice_batch(batch, deal_rows(rows, count, {1}).front(), step);
}

SlicedBatch slice_batch(const NamedTensors& batch, std::span<const std::int64_t> sizes,
                        std::uint64_t step) {
  const std::int64_t rows = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  SlicedBatch sliced;
  std::int64_t first = 0;
  for (const std::int64_t size : sizes) {
    const auto index = static_cast<std::uint32_t>(sliced.slices.size());
    sliced.micro_batches.push_back({step, index, first, rows});
    NamedTensors& slice = sliced.slices.emplace_back();
    for (const auto& [name, tensor] : batch) slice.emplace(name, tensor.slice(first, first + size));
    first += size;
  }
  return sliced;
}

std::vector<std::int64_t> joined(const DealtRows& dealt) {
  std::vector<std::int64_t> all;
  for (const auto& own : dealt) all.insert(all.end(), own.begin(), own.end());
  return all;
}

std::vector<std::int64_t> BatchRunner::cut(std::int64_t rows, const RuntimeOptions& options,
                                           std::uint64_t step) {
  const ShareWeights* const given = options.shares.at(step);
  const ShareWeights whole = {1};
  return joined(deal_rows(rows, options.micro_batches, given == nullptr ? whole : *given));
}

std::vector<Computed> BatchRunner::compute(std::span<Stage> stages,
                                           std::span<const NamedTensors> batches, bool measure) {
  std::vector<Computed> all;
  for (const NamedTensors& data : batches) {
    Computed& one = all.emplace_back();
    for (Stage& stage : stages) {
      const NamedTensors inputs =
          stages.size() == 1 ? data : part_inputs(stage->graph(), data, one.outputs);
      one.outputs.merge(measure ? stage->evaluate(inputs, one.taps) : stage->infer(inputs));
    }
  }
  return all;
}

StreamOutcome BatchRunner::stream(std::span<Stage> stages, const StreamWork& work) {
  StreamOutcome outcome;
  PartFlow flow;
  flow.part = stages.front()->graph().name();
  const SteadyClock clock;
  Nanoseconds first_done{};
  for (std::int64_t number = work.first_batch;; ++number) {
    const Nanoseconds begun = clock.now();
    outcome.interrupted = work.stop_wished();
    std::optional<NamedTensors> data;
    if (!outcome.interrupted) data = next_of_all(work.feeds);
    const Nanoseconds fed = clock.now();
    flow.for_input += fed - begun;
    if (!data) break;
    Computed computed = std::move(compute(stages, {&*data, 1}, work.measure).front());
    const Nanoseconds done = clock.now();
    flow.busy += done - fed;
    if (flow.batches == 0) first_done = done;
    ++flow.batches;
    if (flow.batches > 1) flow.period = (done - first_done) / (flow.batches - 1);
    work.sink->give(
        stages.size() - 1,
        {number, batch_rows(*data), std::move(computed.outputs), std::move(computed.taps)}, {});
    flow.for_room += clock.now() - done;
  }
  outcome.parts.push_back(std::move(flow));
  return outcome;
}

std::unique_ptr<BatchRunner> make_sequential_runner(AfterForward after_forward) {
  return std::make_unique<SequentialRunner>(std::move(after_forward));
}

void rethrow_for_part(const std::exception_ptr& error, std::size_t index, std::size_t count,
                      const HarmonicGraph& part) {
  if (count == 1) std::rethrow_exception(error);
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    fail(known.code(), "part {} of {} ('{}'): {}", index, count, part.name(), known.what());
  }
}

}  // namespace harmonics::inline in_schedule
