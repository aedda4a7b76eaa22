#include "stage_driver.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <harmonics/base/check.h>
#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>
#include <harmonics/runtime/devices.h>

#include "remote/wire.h"
#include "secure/secure_meeting.h"

namespace harmonics::inline in_schedule {

void lower(std::atomic<std::uint64_t>& value, std::uint64_t other) {
  std::uint64_t known = value.load();
  while (other < known && !value.compare_exchange_weak(known, other)) {
  }
}

SliceResults StageDriver::run(const std::vector<Pass>& passes, const SlicedBatch& batch,
                              const std::stop_token& stop) {
  SliceResults results;
  results.taps.resize(batch.micro_batches.size());
  if (batch.keep_outputs) results.outputs.resize(batch.micro_batches.size());
  const std::uint64_t ends_after = ends_after_.load();
  head_ = encode(BatchHead{batch.micro_batches.front().batch_samples,
                           static_cast<std::uint32_t>(batch.micro_batches.size()), ends_after});
  run_end_ = encode_run_end(ends_after);
  announce(batch.micro_batches.front(), head_);
  if (custody_ != nullptr) custody_->begin_step(stage_, batch.micro_batches.front().step);
  for (const Pass& pass : passes) {
    if (stop.stop_requested()) break;
    MicroBatch micro_batch = batch.micro_batches.at(pass.micro_batch);
    micro_batch.only_learns = taps_come_late_ && custody_ == nullptr && !batch.keep_outputs;
    if (!ends_.takes(micro_batch.index)) continue;
    ends_.turn = micro_batch.index;
    if (pass.direction == Pass::Direction::kForward) {
      forward(micro_batch, batch, results);
      results.finite = std::isfinite(results.taps[micro_batch.index].loss_sum);
      if (!results.finite) break;
    } else {
      backward(micro_batch, batch.loss_scale);
      if (after_backward_) after_backward_(micro_batch);
    }
  }
  if (results.finite && !stop.stop_requested()) hear_late_taps(stage_, results);
  end_batch(results, stop);
  return results;
}

void StageDriver::announce(const MicroBatch& first, const Bytes& head) {
  for (const auto& [name, end] : ends_.leaving) {
    if (!end.dealt) continue;
    for (Transport* const channel : end.channels) {
      channel->send(batch_message(first.step, head), deadline_in(patience_));
    }
  }
}

// What was broken off is not signed.
void StageDriver::end_batch(const SliceResults& results, const std::stop_token& stop) {
  if (custody_ != nullptr && results.finite && !stop.stop_requested()) custody_->end_step();
}

SliceResults StageDriver::compute(const SlicedBatch& batches, bool measure,
                                  const std::stop_token& stop) {
  SliceResults results;
  if (custody_ != nullptr) custody_->begin_batch(stage_, batches.micro_batches.front().step);
  ends_.turn = 0;
  const MicroBatch& first = batches.micro_batches.front();
  announce(first, encode(BatchHead{first.batch_samples, 1, ends_after_.load()}));
  if (!ends_.takes(ends_.turn)) {
    results.taps.resize(batches.micro_batches.size());
    results.outputs.resize(batches.micro_batches.size());
    return results;
  }
  for (const MicroBatch& batch : batches.micro_batches) {
    if (stop.stop_requested()) break;
    TapReport& taps = results.taps.emplace_back();
    NamedTensors outputs =
        compute_one(batch, batches.slices[batch.index], measure ? &taps : nullptr);
    hand_on_one(batch, outputs);
    results.outputs.push_back(std::move(outputs));
  }
  end_batch(results, stop);
  return results;
}

NamedTensors StageDriver::compute_one(const MicroBatch& batch, const NamedTensors& data,
                                      TapReport* taps) {
  const NamedTensors inputs = inputs_of(batch, data);
  NamedTensors outputs = taps == nullptr ? stage_->infer(inputs) : stage_->evaluate(inputs, *taps);
  pack_leaving(outputs);
  return outputs;
}

void StageDriver::hand_on_one(const MicroBatch& batch, NamedTensors& outputs) {
  hand_on(batch, outputs, encode(BatchHead{batch.batch_samples, 1, ends_after_.load()}));
}

NamedTensors StageDriver::inputs_of(const MicroBatch& micro_batch, const NamedTensors& data) {
  NamedTensors received;
  for (const auto& [name, end] : ends_.entering) {
    Tensor came = receive(name, end, MessageKind::kActivation, micro_batch);
    const ProducerNode& node =
        stage_->graph().producers()[stage_->graph().producer_index(name).value()];
    if (end.bits.packs_activations() && is_floating(node.dtype)) came = unpacked(came, 0);
    received.emplace(name, std::move(came));
  }
  if (custody_ != nullptr) custody_->note_data(stage_->graph(), micro_batch.index, data);
  return part_inputs(stage_->graph(), data, received);
}

// Before it is signed: what is signed is what is sent.
void StageDriver::pack_leaving(NamedTensors& outputs) const {
  for (const auto& [name, end] : ends_.leaving) {
    if (!end.bits.packs_activations()) continue;
    Tensor& leaving = outputs.find(name)->second;
    leaving = pack_tensor(cpu_tensor(leaving), end.bits.activations);
  }
}

// A gradient for each use lies along its first axis: they and the samples become rows.
Tensor StageDriver::packed_gradient(const std::string& name, const BoundaryCarrier& end,
                                    const MicroBatch& micro_batch, const Tensor& gradient) {
  if (!end.bits.packs_gradients()) return gradient;
  HARMONICS_CHECK(gradient.shape().size() >= 2, "a gradient has slots and samples");
  Shape rows(gradient.shape().begin() + 1, gradient.shape().end());
  rows.front() *= gradient.shape().front();
  Tensor& rest = ends_.rests.rests[{name, micro_batch.index}];
  return pack_with_residual(cpu_tensor(gradient).reshaped(std::move(rows)), end.bits.gradients,
                            rest);
}

Tensor unpacked(const Tensor& tensor, std::uint32_t slots) {
  const Tensor whole = tensor.dtype() == DType::kUInt8 ? unpack_tensor(tensor) : tensor;
  if (slots == 0) return whole;
  Shape shape = whole.shape();
  if (shape.empty() || shape.front() % slots != 0) {
    fail(ErrorCode::kDataLoss, "{} gradients came in a tensor of shape {}", slots,
         shape_text(shape));
  }
  shape.front() /= slots;
  shape.insert(shape.begin(), slots);
  return whole.reshaped(std::move(shape));
}

// What leaves over a boundary is sent and is no output.
void StageDriver::hand_on(const MicroBatch& micro_batch, NamedTensors& outputs, const Bytes& head) {
  for (const auto& [name, end] : ends_.leaving) {
    auto leaving = outputs.extract(name);
    if (end.channels.size() > 1) share(name, end, leaving.mapped());
    send(name, end,
         {MessageKind::kActivation, micro_batch.step, micro_batch.index,
          std::move(leaving.mapped()), head});
  }
  if (custody_ != nullptr) custody_->give_out(micro_batch, outputs);
}

void StageDriver::share(const std::string& name, const BoundaryCarrier& end, Tensor& leaving) {
  StageEnds::Shared& shared = ends_.shared[name];
  const std::size_t taker = end.turns.copy_of(ends_.turn);
  if (leaving.shape().at(0) > 0) shared = {leaving, {}};
  if (shared.known_to.insert(taker).second) leaving = shared.tensor;
}

void StageDriver::forward(const MicroBatch& micro_batch, const SlicedBatch& batch,
                          SliceResults& results) {
  TapReport taps;
  NamedTensors outputs =
      stage_->forward(micro_batch, inputs_of(micro_batch, batch.slices[micro_batch.index]), taps);
  if (custody_ != nullptr) custody_->note_layers(stage_, micro_batch);
  pack_leaving(outputs);
  hand_on(micro_batch, outputs, head_);
  results.taps[micro_batch.index] = taps;
  if (batch.keep_outputs) results.outputs[micro_batch.index] = std::move(outputs);
}

void StageDriver::backward(const MicroBatch& micro_batch, double loss_scale) {
  NamedTensors gradients;
  for (const ConsumerNode& node : stage_->graph().consumers()) {
    const auto end = ends_.leaving.find(node.name);
    if (node.gradient_slots == 0 || end == ends_.leaving.end()) continue;
    Tensor came = receive(node.name, end->second, MessageKind::kGradient, micro_batch);
    if (end->second.bits.packs_gradients()) came = unpacked(came, node.gradient_slots);
    gradients.emplace(node.name, std::move(came));
  }
  if (ends_.rests.loss_scale != loss_scale) ends_.rests = {{}, loss_scale};
  for (auto& [name, gradient] : stage_->backward(micro_batch, gradients, loss_scale)) {
    const auto end = ends_.entering.find(name);
    if (end == ends_.entering.end()) continue;
    send(name, end->second,
         {MessageKind::kGradient, micro_batch.step, micro_batch.index,
          packed_gradient(name, end->second, micro_batch, gradient), run_end_});
  }
}

void StageDriver::send(const std::string& name, const BoundaryCarrier& end, Message message) {
  if (end.host_only) message.tensor = cpu_tensor(message.tensor);
  if (custody_ != nullptr) {
    const Passage passage = passage_of(name, message);
    const Bytes seal = custody_->proves()
                           ? custody_->seal_proven(passage, message.tensor, message.attachment)
                           : custody_->seal(passage, message.tensor, message.attachment);
    message.attachment.insert(message.attachment.end(), seal.begin(), seal.end());
  }
  end.in_turn(ends_.turn).send(message, deadline_in(patience_));
}

Tensor StageDriver::receive(const std::string& name, const BoundaryCarrier& end, MessageKind kind,
                            const MicroBatch& micro_batch) {
  std::optional<Message> message;
  if (kind == MessageKind::kActivation && ends_.taken.contains(name)) {
    message = std::move(ends_.taken.extract(name).mapped());
  } else {
    message = end.in_turn(ends_.turn).receive(deadline_in(patience_));
  }
  if (!message) {
    fail(ErrorCode::kAborted, "boundary '{}': the other part stopped in step {}", name,
         micro_batch.step + 1);
  }
  const Passage due = passage_of(name, {kind, micro_batch.step, micro_batch.index, {}, {}});
  const ByteSpan head = checked_head(*message, due);
  if (message->kind != kind || message->step != micro_batch.step ||
      message->micro_batch != micro_batch.index) {
    fail(
        ErrorCode::kDataLoss,
        "boundary '{}': {} of step {}, micro-batch {} was due, {} of step {}, micro-batch {} came; "
        "the two parts are out of step: start both from the same checkpoint, with the same plan",
        name, message_kind_name(kind), micro_batch.step + 1, micro_batch.index,
        message_kind_name(message->kind), message->step + 1, message->micro_batch);
  }
  lower(ends_after_,
        kind == MessageKind::kGradient ? decode_run_end(head) : decode_batch_head(head).ends_after);
  return std::move(message->tensor);
}

// What rides with the tensor, once custody has let both through: before anything else about the
// message is believed.
ByteSpan StageDriver::checked_head(Message& message, const Passage& due) {
  const ByteSpan all = message.attachment;
  if (custody_ == nullptr) return all;
  const std::size_t size = due.direction == Direction::kBackward ? kRunEndBytes : kBatchHeadBytes;
  const ByteSpan head = all.first(std::min(all.size(), size));
  const bool carries =
      message.kind == MessageKind::kActivation || message.kind == MessageKind::kGradient;
  if (carries && !message.tensor.defined()) {
    fail_custody(Breach::kDrop, "{}: the link came without its tensor", passage_text(due));
  }
  if (!carries) return head;
  const ByteSpan seal = all.subspan(head.size());
  if (custody_->proves()) {
    custody_->check_proven(due, message.tensor, seal, head);
  } else {
    custody_->check(due, message.tensor, seal, head);
  }
  return head;
}

}  // namespace harmonics::inline in_schedule
