#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/tensor/torch.h>

#include "kernels/kernels.h"
#include "torch_backend.h"

namespace harmonics::inline in_runtime {
namespace {

// Micro-batches of one shape that are launched piece by piece first: libtorch chooses kernels and
// takes their memory then.
constexpr int kSeenBefore = 2;
// Shapes and numbers of micro-batches that are remembered; where more come, none is recorded.
constexpr std::size_t kMaxRecorded = 64;
// The passes of one step are a set: in every step they come in the same order. Each set holds the
// memory of its activations, so there are few: a whole batch, the last of an epoch, two more.
constexpr int kMaxSets = 4;

// Shapes of batches that are only computed which are recorded; each holds the memory of its pass.
constexpr std::size_t kMaxInferences = 8;

std::vector<std::int64_t> shape_key(std::int64_t number, std::span<const at::Tensor> values) {
  std::vector<std::int64_t> key{number};
  for (const at::Tensor& value : values) {
    if (!value.defined()) continue;
    key.push_back(static_cast<std::int64_t>(value.scalar_type()));
    key.insert(key.end(), value.sizes().begin(), value.sizes().end());
  }
  return key;
}

// Memory for what enters a recorded pass.
Tensors room_for(std::span<const at::Tensor> entering, std::size_t slots) {
  Tensors room(slots);
  for (std::size_t slot = 0; slot < entering.size(); ++slot) {
    if (entering[slot].defined()) room[slot] = at::empty_like(entering[slot]);
  }
  return room;
}

// Puts a batch there.
void lay_down(const Tensors& room, const Tensors& values) {
  for (std::size_t slot = 0; slot < room.size(); ++slot) {
    if (!room[slot].defined()) continue;
    room[slot].variable_data().copy_(values[slot], /*non_blocking=*/true);
  }
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

void TorchBackend::stop_recording(std::string_view why) {
  records_ = false;
  std::erase_if(recorded_, [](const auto& entry) { return !entry.second.forward; });
  log_info("runtime", "graph '{}' is launched piece by piece on {}: {}", graph_.name(), place(),
           why);
}

std::span<const at::Tensor> TorchBackend::entering(const Collected& collected) const {
  return std::span(collected.values).first(graph_.producers().size());
}

void TorchBackend::forget_recorded() {
  launched_.clear();
  untold_.clear();
  heard_.clear();
  recorded_.clear();
  recorded_sets_ = 0;
  inferences_.clear();
  gradient_sums_.clear();
}

RecordedFlight* TorchBackend::recorded_for(const MicroBatch& micro_batch,
                                           const Collected& collected) {
  if (recorded_.empty() && !records_) return nullptr;
  const std::vector<std::int64_t> key = shape_key(micro_batch.index, entering(collected));
  if (const auto known = recorded_.find(key); known != recorded_.end() && known->second.forward) {
    return &known->second;
  }
  if (!records_) return nullptr;
  RecordedFlight& found = recorded_[key];
  if (recorded_.size() > kMaxRecorded) {
    stop_recording(format("its batches have had more than {} shapes", kMaxRecorded));
    return nullptr;
  }
  if (found.seen++ < kSeenBefore) {
    if (found.seen == kSeenBefore) rehearsing_ = true;
    return nullptr;
  }
  if (!set_is_open_) {
    if (recorded_sets_ == kMaxSets) {
      stop_recording(format("batches of {} kinds are recorded, which is the most", kMaxSets));
      return nullptr;
    }
    recorder_->begin_set();
    set_is_open_ = true;
    ++recorded_sets_;
  }
  try {
    record_forward(found, micro_batch, collected);
  } catch (const std::exception& error) {
    stop_recording(first_line(error.what()));
    return nullptr;
  }
  return &found;
}

void TorchBackend::record_forward(RecordedFlight& made, const MicroBatch& micro_batch,
                                  const Collected& collected) {
  made.axes = collected.axes;
  made.entering = room_for(entering(collected), collected.values.size());
  made.forward = recorder_->record([&] {
    made.draws.clear();
    made.flight = run(micro_batch, {made.entering, made.axes}, Mode::kTrain, &made.draws);
    run_taps(made.flight, Mode::kTrain);
    Tensors numbers;
    for (const TapValue& value : made.flight.taps) {
      numbers.push_back(value.sum.detach().to(at::kDouble).reshape({1}));
      if (value.correct.defined()) numbers.push_back(value.correct.to(at::kDouble).reshape({1}));
    }
    if (!numbers.empty()) made.said = at::cat(numbers);
    made.leaving = leaving(made.flight, Mode::kTrain);
  });
  if (made.said.defined()) {
    made.heard =
        at::empty(made.said.sizes(), at::TensorOptions().dtype(at::kDouble).pinned_memory(true));
  }
}

NamedTensors TorchBackend::launch_forward(RecordedFlight& recorded, const MicroBatch& micro_batch,
                                          const Collected& collected, TapReport& report) {
  recorded.micro_batch = micro_batch;
  recorded.flight.batch_samples = micro_batch.batch_samples;
  forget_kept();
  {
    const at::NoGradGuard no_grad;
    lay_down(recorded.entering, collected.values);
    for (ChanceDraw& draw : recorded.draws) {
      LayerCall call;
      call.key = draw.key;
      call.step = micro_batch.step;
      call.first_sample = micro_batch.first_sample;
      draw.mask.variable_data().copy_(dropout_mask(draw.mask.sizes(), draw.p, call).pin_memory(),
                                      /*non_blocking=*/true);
    }
  }
  recorded.forward->launch();
  launched_.insert_or_assign(micro_batch.index, &recorded);
  // The next pass writes here again: whoever reads later gets a copy.
  Tensors leaving;
  for (const at::Tensor& value : recorded.leaving) leaving.push_back(value.clone());
  NamedTensors outputs = handed_on(leaving, micro_batch.only_learns);
  if (recorded.said.defined()) {
    recorded.heard.copy_(recorded.said, /*non_blocking=*/true);
    recorded.forward->mark();
  }
  if (micro_batch.only_learns) {
    untold_.insert_or_assign(micro_batch.index, &recorded);
  } else {
    hear_taps(recorded, report);
  }
  return outputs;
}

void TorchBackend::hear_taps(RecordedFlight& recorded, TapReport& report) const {
  if (!recorded.said.defined()) return;
  recorded.forward->wait();
  const double* number = recorded.heard.data_ptr<double>();
  for (std::size_t i = 0; i < recorded.flight.taps.size(); ++i) {
    const TapValue& value = recorded.flight.taps[i];
    report.loss_sum += program_.taps[i].weight * *number++;
    report.judged += value.judged;
    if (value.correct.defined()) report.correct += static_cast<std::int64_t>(*number++);
  }
}

std::map<std::uint32_t, TapReport> TorchBackend::late_taps() {
  std::map<std::uint32_t, TapReport> all = std::exchange(heard_, {});
  for (const auto& [index, recorded] : untold_) {
    if (recorded->said.defined()) hear_taps(*recorded, all[index]);
  }
  // Until the step ends somebody may ask what in them was not finite.
  launched_.merge(std::exchange(untold_, {}));
  return all;
}

void TorchBackend::lay_down_gradients(RecordedFlight& recorded, const NamedTensors& gradients,
                                      double loss_scale) {
  const at::NoGradGuard no_grad;
  const bool first = !recorded.backward;
  recorded.arriving.resize(program_.consumers.size());
  for (std::size_t i = 0; i < program_.consumers.size(); ++i) {
    const ConsumerStep& step = program_.consumers[i];
    if (step.first_use == kNoUse) continue;
    const at::Tensor message = to_torch(gradient_message(step, gradients));
    const at::Tensor& like = recorded.leaving[i];
    if (first) recorded.arriving[i] = at::empty(message.sizes(), like.options());
    recorded.arriving[i].variable_data().copy_(message, /*non_blocking=*/true);
  }
  recorded.tap_gradients.resize(recorded.flight.taps.size());
  for (std::size_t i = 0; i < recorded.flight.taps.size(); ++i) {
    const at::Tensor& sum = recorded.flight.taps[i].sum;
    if (first && sum.requires_grad()) {
      recorded.tap_gradients[i] = at::empty(sum.sizes(), sum.options());
    }
    if (!recorded.tap_gradients[i].defined()) continue;
    recorded.tap_gradients[i].variable_data().fill_(tap_gradient(i, recorded.flight, loss_scale));
  }
}

// Each parameter's gradient is made anew, in memory that later passes take again, and then added to
// its sum. The first pass that is recorded, usually that of a step's first micro-batch, writes the
// sums instead.
void TorchBackend::record_backward(RecordedFlight& recorded) {
  gradient_sums_.resize(parameters_.size());
  Tensors made_sums(parameters_.size());  // outside of what passes share
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!owns(i)) continue;
    parameters_[i].mutable_grad().reset();
    if (parameters_[i].requires_grad() && !gradient_sums_[i].defined()) {
      made_sums[i] = at::empty_like(parameters_[i].detach());
    }
  }
  recorded.backward = recorder_->record([&] {
    Tensors roots, root_gradients;
    for (std::size_t i = 0; i < program_.consumers.size(); ++i) {
      if (!recorded.arriving[i].defined()) continue;
      add_boundary_roots(program_.consumers[i], recorded.flight, recorded.arriving[i], roots,
                         root_gradients);
    }
    for (std::size_t i = 0; i < recorded.flight.taps.size(); ++i) {
      if (!recorded.tap_gradients[i].defined()) continue;
      roots.push_back(recorded.flight.taps[i].sum);
      root_gradients.push_back(recorded.tap_gradients[i]);
    }
    recorded.answers = walk_back(recorded.flight, roots, root_gradients);
    const at::NoGradGuard no_grad;
    Tensors sums, gradients, begun, first;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!owns(i) || !parameters_[i].grad().defined()) continue;
      const at::Tensor gradient = std::exchange(parameters_[i].mutable_grad(), at::Tensor());
      if (gradient_sums_[i].defined()) {
        recorded.reached.push_back(i);
        sums.push_back(gradient_sums_[i]);
        gradients.push_back(gradient);
      } else {
        recorded.begun.push_back(i);
        begun.push_back(made_sums[i]);
        first.push_back(gradient);
      }
    }
    if (!sums.empty()) at::_foreach_add_(sums, gradients);
    copy_all(begun, first);
  });
  for (const std::size_t place : recorded.begun) gradient_sums_[place] = made_sums[place];
  recorded.flight.values.clear();
  recorded.flight.aliases.clear();
}

bool TorchBackend::has_backward(RecordedFlight& recorded) {
  if (recorded.backward) return true;
  const Tensors before = [&] {
    Tensors all;
    for (at::Tensor& parameter : parameters_) all.push_back(parameter.grad());
    return all;
  }();
  std::string why;
  try {
    record_backward(recorded);
  } catch (const std::exception& error) {
    why = error.what();
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (owns(i)) parameters_[i].mutable_grad() = before[i];
  }
  if (recorded.backward) return true;
  compute_again(recorded);
  const std::uint32_t index = recorded.micro_batch.index;
  if (untold_.erase(index) > 0) hear_taps(recorded, heard_[index]);
  recorded = RecordedFlight();
  stop_recording(first_line(why));
  return false;
}

NamedTensors TorchBackend::launch_backward(RecordedFlight& recorded) {
  const at::NoGradGuard no_grad;
  Tensors fresh, overwritten, before;
  for (const std::size_t place : recorded.begun) {
    at::Tensor& gradient = parameters_[place].mutable_grad();
    if (gradient.defined()) {
      overwritten.push_back(gradient_sums_[place]);
      before.push_back(gradient.clone());
    }
    gradient = gradient_sums_[place];
  }
  for (const std::size_t place : recorded.reached) {
    at::Tensor& gradient = parameters_[place].mutable_grad();
    at::Tensor& sum = gradient_sums_[place];
    if (!gradient.defined()) {
      fresh.push_back(sum);
    } else if (!gradient.is_same(sum)) {
      sum.copy_(gradient);
    }
    gradient = sum;
  }
  if (!fresh.empty()) at::_foreach_zero_(fresh);
  recorded.backward->launch();
  if (!before.empty()) at::_foreach_add_(overwritten, before);
  Tensors answers;
  for (const at::Tensor& answer : recorded.answers) {
    answers.push_back(answer.defined() ? answer.clone() : answer);
  }
  return named_answers(answers);
}

std::optional<Tensors> TorchBackend::launch_inference(const Collected& collected) {
  // A step that is being recorded needs its set.
  if (!records_inference_ || set_is_open_) return std::nullopt;
  const std::vector<std::int64_t> key = shape_key(0, entering(collected));
  auto found = inferences_.find(key);
  if (found == inferences_.end()) {
    if (inferences_.size() == kMaxInferences) return std::nullopt;
    found = inferences_.try_emplace(key).first;
  }
  RecordedInference& recorded = found->second;
  if (!recorded.pass) {
    if (recorded.seen++ < kSeenBefore) {
      if (recorded.seen < kSeenBefore) return std::nullopt;
      Tensors left;
      recorder_->rehearse([&] { left = inferred(collected); });
      return left;
    }
    if (!record_inference(recorded, collected)) return std::nullopt;
  }
  lay_down(recorded.entering, collected.values);
  recorded.pass->launch();
  Tensors left;  // the next pass writes there again
  for (const at::Tensor& value : recorded.leaving) left.push_back(value.clone());
  return left;
}

bool TorchBackend::record_inference(RecordedInference& made, const Collected& collected) {
  made.axes = collected.axes;
  {
    const c10::InferenceMode changeable(false);
    made.entering = room_for(entering(collected), collected.values.size());
  }
  recorder_->begin_set();
  try {
    made.pass = recorder_->record([&] { made.leaving = inferred({made.entering, made.axes}); });
  } catch (const std::exception& error) {
    records_inference_ = false;
    std::erase_if(inferences_, [](const auto& entry) { return !entry.second.pass; });
    log_info("runtime", "graph '{}' infers piece by piece on {}: {}", graph_.name(), place(),
             first_line(error.what()));
    return false;
  }
  return true;
}

// The statistics have had this batch already.
void TorchBackend::compute_again(const RecordedFlight& recorded) {
  const Tensors before = statistics();
  Flight flight = run(recorded.micro_batch, {recorded.entering, recorded.axes}, Mode::kTrain);
  run_taps(flight, Mode::kTrain);
  flights_.insert_or_assign(recorded.micro_batch.index, std::move(flight));
  put_back(before);
}

}  // namespace harmonics::inline in_runtime
