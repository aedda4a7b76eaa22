#include <harmonics/schedule/stage_row.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr double kMaxLossScale = 16777216.0;
constexpr std::int64_t kStepsBeforeScaleGrows = 2000;

}  // namespace

StageRow::StageRow(const std::vector<HarmonicGraph>& parts,
                   const std::vector<RuntimeOptions>& options, OpenBoundaries open)
    : open_(std::move(open)),
      agreement_(std::make_unique<RunAgreement>()),
      runner_(make_sequential_runner()) {
  if (parts.empty() || parts.size() != options.size()) {
    fail(ErrorCode::kInvalidArgument,
         "{} parts and options for {}: they must agree and be at least 1", parts.size(),
         options.size());
  }
  options_ = options.front();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    stages_.emplace_back(parts[i], options[i]);
    has_tap_ = has_tap_ || !parts[i].taps().empty();
  }
  learns_ = has_tap_;
  check_boundaries();
}

void StageRow::check_boundaries() {
  struct Sender {
    std::size_t part;
    const ConsumerNode* node;
  };
  std::map<std::string, Sender, std::less<>> sent;
  for (std::size_t part = 0; part < stages_.size(); ++part) {
    const Stage& stage = stages_[part];
    for (const ProducerNode& node : stage->graph().producers()) {
      const auto from = sent.find(node.name);
      if (from != sent.end()) {  // both ends are here
        boundaries_.push_back({node.name, from->second.part, part});
        sent.erase(from);
      } else if (open_.entering.contains(node.name)) {
        learns_ = learns_ || node.gradient_slots > 0;
      } else if (is_boundary_name(node.name)) {
        fail(ErrorCode::kFailedPrecondition,
             "boundary '{}' enters graph '{}', but no earlier part sends it", node.name,
             stage->graph().name());
      } else {
        producers_.push_back(node);
      }
    }
    for (const ConsumerNode& node : stage->graph().consumers()) {
      sent.emplace(node.name, Sender{part, &node});
    }
  }
  for (const auto& [name, sender] : sent) {
    if (open_.leaving.contains(name)) {
      learns_ = learns_ || sender.node->gradient_slots > 0;
      continue;
    }
    if (is_boundary_name(name)) {
      fail(ErrorCode::kFailedPrecondition,
           "boundary '{}' leaves its part, but no later part takes it", name);
    }
    consumers_.push_back(*sender.node);
  }
}

bool StageRow::is_target_only(std::string_view producer) const {
  bool used_by_tap = false;
  for (const Stage& stage : stages_) {
    for (const LayerNode& layer : stage->graph().layers()) {
      if (std::find(layer.inputs.begin(), layer.inputs.end(), producer) != layer.inputs.end()) {
        return false;
      }
    }
    for (const ConsumerNode& node : stage->graph().consumers()) {
      if (node.input == producer) return false;
    }
    for (const TrainingTap& tap : stage->graph().taps()) used_by_tap |= tap.target == producer;
  }
  return used_by_tap;
}

BatchReport StageRow::train(const NamedTensors& batch, NamedTensors* outputs) {
  if (!learns()) {
    fail(ErrorCode::kFailedPrecondition,
         "the graph has no training tap, so there is nothing to learn");
  }
  const auto step = static_cast<std::uint64_t>(state_.steps);
  SlicedBatch sliced =
      slice_batch(batch, runner_->cut(agreement_->rows(batch), options_, step), step);
  sliced.keep_outputs = outputs != nullptr;
  if (scales_loss()) sliced.loss_scale = state_.loss_scale;
  BatchReport report;
  report.samples = sliced.micro_batches.front().batch_samples;
  SliceResults results;
  try {
    results = runner_->run(stages_, sliced);
  } catch (...) {
    // Whatever stopped them, no gradient of this batch stays behind.
    for (Stage& stage : stages_) stage->reset();
    throw;
  }
  if (!results.finite) report_non_finite_loss();
  for (const TapReport& taps : results.taps) report.taps += taps;
  for (const ConsumerNode& node : consumers_) {
    if (outputs == nullptr) break;
    std::vector<Tensor> slices;
    for (const NamedTensors& leaving : results.outputs) {
      // Micro-batches of a copy elsewhere leave there.
      const auto slice = leaving.find(node.name);
      if (slice != leaving.end()) slices.push_back(slice->second);
    }
    if (!slices.empty()) (*outputs)[node.name] = concat_rows(slices);
  }
  finish(report);
  return report;
}

bool StageRow::scales_loss() const {
  return stages_.front()->precision() == PrecisionPolicy::kFp16;
}

// Clipping, fp16 overflow and the update itself are decided once for all parts.
void StageRow::finish(BatchReport& report) {
  const bool scaled = scales_loss();
  Update update;
  update.learning_rate = options_.rate_at(state_.updates);
  update.updates_before = state_.updates;
  if (scaled) update.gradient_factor = 1.0 / state_.loss_scale;
  report.learning_rate = update.learning_rate;
  if (scaled || options_.clip_norm > 0) {
    const double sum = gradient_square_sum();
    report.gradient_norm = std::sqrt(sum) * update.gradient_factor;
    report.updated = !scaled || std::isfinite(sum);
    if (options_.clip_norm > 0 && report.gradient_norm > options_.clip_norm) {
      update.gradient_factor *= options_.clip_norm / report.gradient_norm;
    }
  }
  runner_->for_each(stages_, [&](std::size_t, Stage& stage) {
    if (report.updated) {
      stage->update(update);
    } else {
      stage->reset();
    }
  });
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

// Added up in name order over all parts, so that cutting changes nothing.
double StageRow::gradient_square_sum() {
  std::vector<std::map<std::string, double>> own(stages_.size());
  runner_->for_each(
      stages_, [&](std::size_t part, Stage& stage) { own[part] = stage->gradient_square_sums(); });
  std::map<std::string, double> squares;
  for (auto& part : own) squares.merge(part);
  double sum = 0;
  const auto step = static_cast<std::uint64_t>(state_.steps);
  for (const auto& [name, square] : agreement_->all_square_sums(std::move(squares), step)) {
    sum += square;
  }
  return sum;
}

void StageRow::report_non_finite_loss() {
  std::string where;
  for (Stage& stage : stages_) {
    where = stage->first_non_finite();
    if (!where.empty()) break;
  }
  for (Stage& stage : stages_) stage->reset();
  fail(
      ErrorCode::kFailedPrecondition,
      "the loss is not finite at step {}: {}; lower the learning rate, clip gradients or check the "
      "data",
      state_.steps + 1,
      where.empty() ? "every layer's output is finite, so the loss itself overflowed"
                    : "the first values that are not finite come from " + where);
}

// What crossed between the parts stays inside.
NamedTensors StageRow::drop_boundaries(NamedTensors outputs) const {
  NamedTensors kept;
  for (const ConsumerNode& node : consumers_) kept.insert(outputs.extract(node.name));
  return kept;
}

std::vector<Computed> StageRow::compute(std::span<const NamedTensors> batches, bool measure) {
  std::vector<Computed> all = runner_->compute(stages_, batches, measure);
  for (Computed& one : all) one.outputs = drop_boundaries(std::move(one.outputs));
  return all;
}

NamedTensors StageRow::infer(const NamedTensors& batch) {
  return std::move(compute({&batch, 1}, false).front().outputs);
}

NamedTensors StageRow::evaluate(const NamedTensors& batch, BatchReport& report) {
  report.samples = agreement_->rows(batch);
  Computed computed = std::move(compute({&batch, 1}, true).front());
  report.taps += computed.taps;
  return std::move(computed.outputs);
}

void StageRow::set_settings(const LearningSettings& settings) {
  if (settings == this->settings()) return;
  options_.seed = settings.seed;
  options_.micro_batches = settings.micro_batches;
  options_.optimizer = settings.optimizer;
  options_.schedule = settings.schedule;
  options_.clip_norm = settings.clip_norm;
  options_.data = settings.data;
  for (Stage& stage : stages_) stage->set_learning(settings.optimizer, settings.seed);
}

NamedTensors StageRow::parameters() const {
  NamedTensors all;
  for (const Stage& stage : stages_) all.merge(stage->parameters());
  return all;
}

NamedTensors StageRow::optimizer_state() const {
  NamedTensors all;
  for (const Stage& stage : stages_) all.merge(stage->optimizer_state());
  return all;
}

}  // namespace harmonics::inline in_schedule
