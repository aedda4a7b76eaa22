#include "results_channel.h"

#include <harmonics/base/byte_fields.h>
#include <harmonics/base/error.h>
#include <harmonics/graph/partition.h>
#include <harmonics/runtime/devices.h>

namespace harmonics::inline in_torch_program {
namespace {

constexpr auto kCompletionFields = [](auto& a, auto& batch) {
  a.number(batch.rows);
  a.number(batch.taps.loss_sum);
  a.number(batch.taps.judged);
  a.number(batch.taps.correct);
  a.check(batch.rows >= 1, "a batch has at least one row");
};

}  // namespace

std::vector<std::string> outputs_of(const HarmonicGraph& part) {
  std::vector<std::string> names;
  for (const ConsumerNode& node : part.consumers()) {
    if (!is_boundary_name(node.name)) names.push_back(node.name);
  }
  return names;
}

void ResultsSender::send(const StreamedBatch& batch) {
  const auto step = static_cast<std::uint64_t>(batch.number);
  for (std::uint32_t i = 0; i < names_.size(); ++i) {
    end_->send({MessageKind::kActivation, step, i, cpu_tensor(batch.outputs.at(names_[i])), {}},
               deadline_in(patience_));
  }
  end_->send({MessageKind::kControl, step, 0, {}, write_fields(batch, kCompletionFields)},
             deadline_in(patience_));
}

void ResultsSender::close() { end_->close(deadline_in(patience_)); }

std::optional<StreamedBatch> ResultsReceiver::receive(Deadline deadline) {
  NamedTensors outputs;
  for (;;) {
    std::optional<Message> message = end_->receive(deadline);
    if (!message) return std::nullopt;
    if (message->kind == MessageKind::kActivation && message->micro_batch < names_.size()) {
      outputs.insert_or_assign(names_[message->micro_batch], std::move(message->tensor));
      continue;
    }
    if (message->kind != MessageKind::kControl || outputs.size() != names_.size()) {
      fail(ErrorCode::kDataLoss, "a part sent results that are none: {} of batch {}, number {}",
           message_kind_name(message->kind), message->step, message->micro_batch);
    }
    auto batch = read_fields<StreamedBatch>(message->attachment, "results", kCompletionFields);
    batch.number = static_cast<std::int64_t>(message->step);
    batch.outputs = std::move(outputs);
    return batch;
  }
}

}  // namespace harmonics::inline in_torch_program
