#include <harmonics/schedule/stage_custody.h>

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/merkle.h>
#include <harmonics/runtime/devices.h>

#include "proof_parcel.h"

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
  const std::uint64_t from = std::max(step, log_->trail().weights().step);
  weights_known_ = true;
  if (const StageProver* const prover = stage->prover(); prover != nullptr) {
    return log_->committed_weights(from, prover->commitment());
  }
  NamedTensors weights;
  for (const auto& [name, tensor] : stage->parameters()) weights.emplace(name, cpu_tensor(tensor));
  log_->weights(from, weights_root(weights));
}

void StageCustody::begin_batch(const Stage& stage, std::uint64_t step) {
  prover_ = stage->prover();
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

Bytes StageCustody::seal_proven(const Passage& passage, Tensor& tensor, ByteSpan along) {
  ProofParcel parcel{prover_->made(), prover_->prove(log_->context_of(passage))};
  Bytes seal = log_->sign_outgoing(passage, view_of(parcel.tensor), parcel.proof.proof, along);
  const Bytes bytes = encode(parcel);
  tensor = Tensor::empty({static_cast<std::int64_t>(bytes.size())}, DType::kUInt8);
  std::ranges::copy(bytes, tensor.mutable_bytes().begin());
  return seal;
}

void StageCustody::check_proven(const Passage& due, Tensor& tensor, ByteSpan seal, ByteSpan along) {
  ProofParcel parcel;
  try {
    parcel = decode_proof_parcel(cpu_tensor(tensor).bytes());
  } catch (const Error& error) {
    fail_custody(Breach::kWrongProof, "{}: a tensor with its proof was due: {}", passage_text(due),
                 std::string_view(error.what()));
  }
  if (parcel.proof.proof.empty()) {
    fail_custody(Breach::kWrongProof, "{}: the tensor came without its proof", passage_text(due));
  }
  const Link link =
      log_->check_incoming(due, view_of(parcel.tensor), seal, parcel.proof.proof, along);
  prover_->check_entering(link, parcel.tensor, parcel.proof);
  tensor = std::move(parcel.tensor);
}

// What the integers are worth is a public matter: they are what is proven and signed.
void StageCustody::give_out_proven(const Passage& passage) {
  const Tensor& made = prover_->made();
  const StageProof proof = prover_->prove(log_->context_of(passage));
  const Bytes sealed = log_->sign_outgoing(passage, view_of(made), proof.proof);
  const Link link = reader_->check_incoming(passage, view_of(made), sealed, proof.proof);
  prover_->check_made(link, proof);
}

void StageCustody::give_out(const MicroBatch& micro_batch, const NamedTensors& outputs) {
  if (reader_ == nullptr) return;
  for (const auto& [name, tensor] : outputs) {
    const Passage passage{output_boundary(log_->trail().stage(), name), Direction::kForward,
                          micro_batch.step, micro_batch.index};
    if (log_->opening().boundary(passage.boundary) == nullptr) continue;
    if (prover_ != nullptr) {
      give_out_proven(passage);
      continue;
    }
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
