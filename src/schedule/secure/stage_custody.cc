#include <harmonics/schedule/stage_custody.h>

#include <algorithm>
#include <utility>

#include <harmonics/custody/merkle.h>
#include <harmonics/runtime/devices.h>

namespace harmonics::inline in_schedule {
namespace {

// The view does not own the bytes: the tensor must live on.
TensorView view_of(const Tensor& tensor) {
  return {static_cast<std::uint8_t>(tensor.dtype()), tensor.shape(), tensor.bytes()};
}

}  // namespace

std::string reader_of(const std::string& stage) { return stage + "/output"; }

std::string output_boundary(const std::string& stage, const std::string& consumer) {
  return stage + "/" + consumer;
}

StageCustody::StageCustody(std::unique_ptr<CustodyLog> log, std::unique_ptr<CustodyLog> reader,
                           const SecureOptions& options)
    : log_(std::move(log)),
      reader_(std::move(reader)),
      weights_every_(options.weights_every),
      signs_layers_(options.layers) {}

void StageCustody::announce(const Stage& stage, std::uint64_t step) {
  NamedTensors weights;
  for (const auto& [name, tensor] : stage->parameters()) weights.emplace(name, cpu_tensor(tensor));
  log_->weights(std::max(step, log_->trail().weights().step), weights_root(weights));
  weights_known_ = true;
}

void StageCustody::begin_batch(const Stage& stage, std::uint64_t step) {
  if (log_->trail().entries() == 0 || !weights_known_) announce(stage, step);
}

void StageCustody::begin_step(const Stage& stage, std::uint64_t step) {
  const bool due = weights_every_ > 0 && step % static_cast<std::uint64_t>(weights_every_) == 0 &&
                   log_->trail().weights().step != step;
  if (due) {
    announce(stage, step);
  } else {
    begin_batch(stage, step);
  }
}

void StageCustody::note_data(const HarmonicGraph& part, std::uint32_t micro_batch,
                             const NamedTensors& data) {
  for (const ProducerNode& node : part.producers()) {
    const auto given = data.find(node.name);
    if (given == data.end() || log_->opening().boundary(node.name) != nullptr) continue;
    const Tensor host = cpu_tensor(given->second);
    log_->data(node.name, micro_batch, view_of(host));
  }
}

void StageCustody::note_layers(Stage& stage, const MicroBatch& micro_batch) {
  if (!signs_layers_) return;
  LayerMark mark{micro_batch.step, micro_batch.index, {}};
  for (const auto& [layer, value] : stage->layer_values(micro_batch.index)) {
    mark.layers.push_back({layer, tensor_root(cpu_tensor(value).bytes())});
  }
  log_->layers(mark);
}

Bytes StageCustody::seal(const Passage& passage, const Tensor& tensor, ByteSpan along) {
  const Tensor host = cpu_tensor(tensor);
  return log_->sign_outgoing(passage, view_of(host), {}, along);
}

void StageCustody::check(const Passage& due, const Tensor& tensor, ByteSpan seal, ByteSpan along) {
  const Tensor host = cpu_tensor(tensor);
  static_cast<void>(log_->check_incoming(due, view_of(host), seal, {}, along));
}

void StageCustody::give_out(const MicroBatch& micro_batch, const NamedTensors& outputs) {
  if (reader_ == nullptr) return;
  for (const auto& [name, tensor] : outputs) {
    const Passage passage{output_boundary(log_->trail().stage(), name), Direction::kForward,
                          micro_batch.step, micro_batch.index};
    if (log_->opening().boundary(passage.boundary) == nullptr) continue;
    const Tensor host = cpu_tensor(tensor);
    const Bytes sealed = log_->sign_outgoing(passage, view_of(host));
    static_cast<void>(reader_->check_incoming(passage, view_of(host), sealed));
  }
}

void StageCustody::end_step() {
  log_->end_step();
  if (reader_ != nullptr) reader_->end_step();
}

void StageCustody::close() {
  log_->close();
  if (reader_ != nullptr) reader_->close();
}

}  // namespace harmonics::inline in_schedule
