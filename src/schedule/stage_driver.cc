#include "stage_driver.h"

#include <cmath>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/runtime/devices.h>

#include "wire.h"

namespace harmonics {

SliceResults StageDriver::run(const std::vector<Pass>& passes, const SlicedBatch& batch,
                              const std::stop_token& stop) {
  SliceResults results;
  head_ = encode(BatchHead{batch.micro_batches.front().batch_samples,
                           static_cast<std::uint32_t>(batch.micro_batches.size())});
  for (const Pass& pass : passes) {
    if (stop.stop_requested()) break;
    const MicroBatch& micro_batch = batch.micro_batches.at(pass.micro_batch);
    if (pass.direction == Pass::Direction::kForward) {
      forward(micro_batch, batch, results);
      results.finite = std::isfinite(results.taps.back().loss_sum);
      if (!results.finite) break;
    } else {
      backward(micro_batch, batch.loss_scale);
    }
  }
  return results;
}

void StageDriver::forward(const MicroBatch& micro_batch, const SlicedBatch& batch,
                          SliceResults& results) {
  NamedTensors received;
  for (const auto& [name, end] : ends_.entering) {
    received.emplace(name, receive(name, *end, MessageKind::kActivation, micro_batch));
  }
  TapReport taps;
  NamedTensors outputs = stage_.forward(
      micro_batch, part_inputs(stage_.graph(), batch.slices[micro_batch.index], received), taps);
  for (const auto& [name, end] : ends_.leaving) {
    auto leaving = outputs.extract(name);
    send(*end, {MessageKind::kActivation, micro_batch.step, micro_batch.index,
                std::move(leaving.mapped()), head_});
  }
  results.taps.push_back(taps);
  if (batch.keep_outputs) results.outputs.push_back(std::move(outputs));
}

void StageDriver::backward(const MicroBatch& micro_batch, double loss_scale) {
  NamedTensors gradients;
  for (const ConsumerNode& node : stage_.graph().consumers()) {
    const auto end = ends_.leaving.find(node.name);
    if (node.gradient_slots == 0 || end == ends_.leaving.end()) continue;
    gradients.emplace(node.name,
                      receive(node.name, *end->second, MessageKind::kGradient, micro_batch));
  }
  for (auto& [name, gradient] : stage_.backward(micro_batch, gradients, loss_scale)) {
    const auto end = ends_.entering.find(name);
    if (end == ends_.entering.end()) continue;
    send(*end->second,
         {MessageKind::kGradient, micro_batch.step, micro_batch.index, std::move(gradient), {}});
  }
}

void StageDriver::send(Transport& end, Message message) const {
  if (ends_.host_only) message.tensor = cpu_tensor(message.tensor);
  end.send(message, deadline_in(patience_));
}

Tensor StageDriver::receive(const std::string& name, Transport& end, MessageKind kind,
                            const MicroBatch& micro_batch) {
  std::optional<Message> message;
  if (kind == MessageKind::kActivation && ends_.taken.contains(name)) {
    message = std::move(ends_.taken.extract(name).mapped());
  } else {
    message = end.receive(deadline_in(patience_));
  }
  if (!message) {
    fail(ErrorCode::kAborted, "boundary '{}': the other part stopped in step {}", name,
         micro_batch.step + 1);
  }
  if (message->kind != kind || message->step != micro_batch.step ||
      message->micro_batch != micro_batch.index) {
    fail(
        ErrorCode::kDataLoss,
        "boundary '{}': {} of step {}, micro-batch {} was due, {} of step {}, micro-batch {} came; "
        "the two parts are out of step: start both from the same checkpoint",
        name, message_kind_name(kind), micro_batch.step + 1, micro_batch.index,
        message_kind_name(message->kind), message->step + 1, message->micro_batch);
  }
  return std::move(message->tensor);
}

}  // namespace harmonics
