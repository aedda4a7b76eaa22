#include <harmonics/runtime/stage_chain.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics {
namespace {

constexpr double kMaxLossScale = 16777216.0;
constexpr std::int64_t kStepsBeforeScaleGrows = 2000;

// What a part reads: its producers, from the batch or from what earlier parts sent.
NamedTensors inputs_of(const HarmonicGraph& part, const NamedTensors& batch,
                       const NamedTensors& sent) {
  NamedTensors inputs;
  for (const ProducerNode& node : part.producers()) {
    if (const auto crossing = sent.find(node.name); crossing != sent.end()) {
      inputs.emplace(node.name, crossing->second);
    } else if (const auto given = batch.find(node.name); given != batch.end()) {
      inputs.emplace(node.name, given->second);
    }
  }
  return inputs;
}

std::int64_t rows_of(const NamedTensors& batch) {
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

}  // namespace

StageChain::StageChain(const std::vector<HarmonicGraph>& parts,
                       const std::vector<RuntimeOptions>& options) {
  if (parts.empty() || parts.size() != options.size()) {
    fail(ErrorCode::kInvalidArgument,
         "{} parts and options for {}: they must agree and be at least 1", parts.size(),
         options.size());
  }
  options_ = options.front();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    stages_.emplace_back(parts[i], options[i]);
    learns_ = learns_ || !parts[i].taps().empty();
  }
  check_boundaries();
}

void StageChain::check_boundaries() {
  std::map<std::string, const ConsumerNode*, std::less<>> sent;
  for (const Stage& stage : stages_) {
    for (const ProducerNode& node : stage.graph().producers()) {
      const auto from = sent.find(node.name);
      if (from != sent.end()) {
        sent.erase(from);  // both ends are here
      } else if (is_boundary_name(node.name)) {
        fail(ErrorCode::kFailedPrecondition,
             "boundary '{}' enters graph '{}', but no earlier part sends it", node.name,
             stage.graph().name());
      } else {
        producers_.push_back(node);
      }
    }
    for (const ConsumerNode& node : stage.graph().consumers()) sent.emplace(node.name, &node);
  }
  for (const auto& [name, node] : sent) {
    if (is_boundary_name(name)) {
      fail(ErrorCode::kFailedPrecondition,
           "boundary '{}' leaves its part, but no later part takes it", name);
    }
    consumers_.push_back(*node);
  }
}

bool StageChain::is_target_only(std::string_view producer) const {
  bool used_by_tap = false;
  for (const Stage& stage : stages_) {
    for (const LayerNode& layer : stage.graph().layers()) {
      if (std::find(layer.inputs.begin(), layer.inputs.end(), producer) != layer.inputs.end()) {
        return false;
      }
    }
    for (const ConsumerNode& node : stage.graph().consumers()) {
      if (node.input == producer) return false;
    }
    for (const TrainingTap& tap : stage.graph().taps()) used_by_tap |= tap.target == producer;
  }
  return used_by_tap;
}

BatchReport StageChain::train(const NamedTensors& batch, NamedTensors* outputs) {
  if (!learns_) {
    fail(ErrorCode::kFailedPrecondition,
         "the graph has no training tap, so there is nothing to learn");
  }
  BatchReport report;
  report.samples = rows_of(batch);
  const std::int64_t count = std::min<std::int64_t>(options_.micro_batches, report.samples);
  std::map<std::string, std::vector<Tensor>, std::less<>> seen;
  for (std::int64_t i = 0; i < count; ++i) {
    // Rows are shared out as evenly as they go, the first micro-batches taking the odd ones.
    const std::int64_t size = report.samples / count + (i < report.samples % count ? 1 : 0);
    const std::int64_t first = report.samples / count * i + std::min(i, report.samples % count);
    const MicroBatch micro_batch{static_cast<std::uint64_t>(state_.steps),
                                 static_cast<std::uint32_t>(i), first, report.samples};
    NamedTensors slice;
    for (const auto& [name, tensor] : batch) slice.emplace(name, tensor.slice(first, first + size));
    NamedTensors leaving;
    const TapReport taps = forward(micro_batch, slice, leaving);
    if (!std::isfinite(taps.loss_sum)) report_non_finite_loss();
    report.taps += taps;
    backward(micro_batch);
    if (outputs == nullptr) continue;
    for (const ConsumerNode& node : consumers_) seen[node.name].push_back(leaving.at(node.name));
  }
  if (outputs != nullptr) {
    for (const auto& [name, slices] : seen) (*outputs)[name] = concat_rows(slices);
  }
  finish(report);
  return report;
}

TapReport StageChain::forward(const MicroBatch& micro_batch, const NamedTensors& slice,
                              NamedTensors& outputs) {
  TapReport taps;
  for (Stage& stage : stages_) {
    outputs.merge(stage.forward(micro_batch, inputs_of(stage.graph(), slice, outputs), taps));
  }
  return taps;
}

void StageChain::backward(const MicroBatch& micro_batch) {
  const bool scaled = stages_.front().precision() == PrecisionPolicy::kFp16;
  NamedTensors gradients;
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
    gradients.merge(stage->backward(micro_batch, gradients, scaled ? state_.loss_scale : 1.0));
  }
}

// Clipping, fp16 overflow and the update itself are decided once for all parts.
void StageChain::finish(BatchReport& report) {
  const bool scaled = stages_.front().precision() == PrecisionPolicy::kFp16;
  Update update;
  update.learning_rate = options_.optimizer.learning_rate * options_.schedule.at(state_.updates);
  update.updates_before = state_.updates;
  if (scaled) update.gradient_factor = 1.0 / state_.loss_scale;
  report.learning_rate = update.learning_rate;
  if (scaled || options_.clip_norm > 0) {
    std::map<std::string, double> squares;  // summed in name order over all parts
    for (const Stage& stage : stages_) squares.merge(stage.gradient_square_sums());
    double sum = 0;
    for (const auto& [name, square] : squares) sum += square;
    report.gradient_norm = std::sqrt(sum) * update.gradient_factor;
    report.updated = !scaled || std::isfinite(sum);
    if (options_.clip_norm > 0 && report.gradient_norm > options_.clip_norm) {
      update.gradient_factor *= options_.clip_norm / report.gradient_norm;
    }
  }
  for (Stage& stage : stages_) {
    if (report.updated) {
      stage.update(update);
    } else {
      stage.reset();
    }
  }
  ++state_.steps;
  if (report.updated) ++state_.updates;
  if (!scaled) return;
  state_.steps_since_overflow = report.updated ? state_.steps_since_overflow + 1 : 0;
  if (!report.updated) {
    state_.loss_scale = std::max(1.0, state_.loss_scale / 2);
  } else if (state_.steps_since_overflow % kStepsBeforeScaleGrows == 0) {
    state_.loss_scale = std::min(kMaxLossScale, state_.loss_scale * 2);
  }
}

void StageChain::report_non_finite_loss() {
  std::string where;
  for (const Stage& stage : stages_) {
    where = stage.first_non_finite();
    if (!where.empty()) break;
  }
  for (Stage& stage : stages_) stage.reset();
  fail(
      ErrorCode::kFailedPrecondition,
      "the loss is not finite at step {}: {}; lower the learning rate, clip gradients or check the "
      "data",
      state_.steps + 1,
      where.empty() ? "every layer's output is finite, so the loss itself overflowed"
                    : "the first values that are not finite come from " + where);
}

// What crossed between the parts stays inside.
NamedTensors StageChain::drop_boundaries(NamedTensors outputs) const {
  NamedTensors kept;
  for (const ConsumerNode& node : consumers_) kept.insert(outputs.extract(node.name));
  return kept;
}

NamedTensors StageChain::infer(const NamedTensors& batch) {
  if (stages_.size() == 1) return stages_.front().infer(batch);
  NamedTensors outputs;
  for (Stage& stage : stages_) {
    outputs.merge(stage.infer(inputs_of(stage.graph(), batch, outputs)));
  }
  return drop_boundaries(std::move(outputs));
}

NamedTensors StageChain::evaluate(const NamedTensors& batch, BatchReport& report) {
  report.samples = rows_of(batch);
  NamedTensors outputs;
  for (Stage& stage : stages_) {
    outputs.merge(stage.evaluate(inputs_of(stage.graph(), batch, outputs), report.taps));
  }
  return drop_boundaries(std::move(outputs));
}

NamedTensors StageChain::parameters() const {
  NamedTensors all;
  for (const Stage& stage : stages_) all.merge(stage.parameters());
  return all;
}

NamedTensors StageChain::optimizer_state() const {
  NamedTensors all;
  for (const Stage& stage : stages_) all.merge(stage.optimizer_state());
  return all;
}

}  // namespace harmonics
