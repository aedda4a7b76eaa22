#include "proven_part.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>
#include <harmonics/proven/proven_pipeline.h>

namespace harmonics::inline in_proven {
Tensor byte_tensor(ByteSpan bytes) {
  return Tensor::of<std::uint8_t>(
      {static_cast<std::int64_t>(bytes.size())},
      std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
}

TensorView view_of(const Tensor& tensor) {
  return {static_cast<std::uint8_t>(tensor.dtype()), tensor.shape(), tensor.bytes()};
}

Shape sums_shape(const LinearShape& shape) {
  Shape out = {shape.batch, shape.outputs};
  if (shape.kind == LinearShape::Kind::kConv3x3) {
    out.insert(out.end(), {shape.height, shape.width});
  }
  return out;
}

Message next_message(Transport& end, const std::string& boundary, MessageKind kind,
                     std::uint64_t step, Nanoseconds patience) {
  std::optional<Message> message = end.receive(deadline_in(patience));
  if (!message) fail(ErrorCode::kAborted, "boundary '{}': the other part stopped", boundary);
  if (message->kind != kind || message->step != step) {
    fail_custody(Breach::kReorder, "boundary '{}': {} of step {} was due, {} of step {} came",
                 boundary, message_kind_name(kind), step + 1, message_kind_name(message->kind),
                 message->step + 1);
  }
  return std::move(*message);
}

namespace {

// Rows that the sender could not foresee.
std::vector<std::uint32_t> spot_rows(std::size_t rows) {
  const BlindingSeed chance = new_blinding_seed();
  std::vector<std::uint32_t> out;
  for (std::size_t i = 0; i < std::min(kSpotCheckedRows, rows); ++i) {
    std::uint64_t number = 0;
    std::memcpy(&number, chance.data() + i * sizeof(number), sizeof(number));
    out.push_back(static_cast<std::uint32_t>(number % rows));
  }
  return out;
}

}  // namespace

BlindingSeed input_seed_after(const BlindingSeed& seed) {
  return Sha256().update(bytes_of("harmonics zk input seed 1")).update(seed).finish();
}

void check_weights(const Link& link, ByteSpan commitment) {
  if (link.weights == sha256(commitment)) return;
  fail_custody(Breach::kWrongWeights, "{}: the link names other weights than were committed to",
               passage_text(link.passage));
}

BlindingSeed check_product(const Int8Layer& layer, const Link& link, const Tensor& tensor,
                           const StageProof& proof) {
  check_weights(link, proof.commitment);
  check_link_proof(link, proof.proof, proof.commitment);
  BlindingSeed seed{};
  const std::int64_t batch = tensor.shape().empty() ? 0 : tensor.shape()[0];
  const LinearShape shape = layer.shape_for(static_cast<std::uint32_t>(batch));
  if (tensor.dtype() != DType::kInt32 || tensor.shape() != sums_shape(shape) ||
      proof.opening.size() != seed.size()) {
    fail_custody(Breach::kWrongProof, "{}: the tensor is not one of this network",
                 passage_text(link.passage));
  }
  std::ranges::copy(proof.opening, seed.begin());
  try {
    check_output_rows(proof.proof, tensor.values<std::int32_t>(), seed,
                      spot_rows(shape.output_rows()));
  } catch (const CustodyError& error) {
    throw CustodyError(error.breach(), format("{}: {}", passage_text(link.passage), error.what()));
  }
  return seed;
}

ProvenSender::ProvenSender(const Int8Layer& layer, std::string boundary, CustodyLog& log,
                           Transport& end, Nanoseconds patience)
    : layer_(layer), boundary_(std::move(boundary)), log_(log), end_(end), patience_(patience) {}

void ProvenSender::announce() {
  commitments_ = commit_weights(layer_.shape, layer_.weights, weight_seed_);
  log_.committed_weights(0, commitments_);
  end_.send({MessageKind::kControl, 0, 0, byte_tensor(commitments_), {}}, deadline_in(patience_));
}

void ProvenSender::send(std::uint64_t step, const std::vector<std::int8_t>& input,
                        const BlindingSeed& seed) {
  const auto per_sample = static_cast<std::size_t>(layer_.shape.inputs) * layer_.shape.pixels();
  const LinearShape shape = layer_.shape_for(static_cast<std::uint32_t>(input.size() / per_sample));
  const std::vector<std::int32_t> sums = linear_product(shape, input, layer_.weights);
  const Passage passage{boundary_, Direction::kForward, step, 0};
  const BlindingSeed output_seed = new_blinding_seed();
  const Bytes proof =
      prove_stage(shape, {input, layer_.weights, sums, seed, weight_seed_, output_seed},
                  commitments_, log_.context_of(passage));
  const Tensor tensor =
      Tensor::of<std::int32_t>(sums_shape(shape), std::span<const std::int32_t>(sums));
  Bytes attachment = log_.sign_outgoing(passage, view_of(tensor), proof);
  end_.send({MessageKind::kActivation, step, 0, tensor, std::move(attachment)},
            deadline_in(patience_));
  // The seed is for the receiver, which holds the plaintext anyway; it is in no record.
  end_.send({MessageKind::kControl, step, 0, byte_tensor(proof),
             Bytes(output_seed.begin(), output_seed.end())},
            deadline_in(patience_));
}

ProvenReceiver::ProvenReceiver(const Int8Layer& sender, std::string boundary, CustodyLog& log,
                               Transport& end, Nanoseconds patience)
    : layer_(sender), boundary_(std::move(boundary)), log_(log), end_(end), patience_(patience) {}

ProvenSums ProvenReceiver::receive(std::uint64_t step, std::uint32_t batch) {
  if (commitments_.empty()) {
    const Message message = next(MessageKind::kControl, 0);
    const ByteSpan bytes = message.tensor.bytes();
    commitments_.assign(bytes.begin(), bytes.end());
  }
  const Message sums = next(MessageKind::kActivation, step);
  const Message proof = next(MessageKind::kControl, step);
  const Passage passage{boundary_, Direction::kForward, step, 0};
  const Link link =
      log_.check_incoming(passage, view_of(sums.tensor), sums.attachment, proof.tensor.bytes());
  const ByteSpan bytes = proof.tensor.bytes();
  ProvenSums out;
  out.seed = check_product(layer_, link, sums.tensor,
                           {commitments_, Bytes(bytes.begin(), bytes.end()), proof.attachment});
  if (sums.tensor.shape()[0] != static_cast<std::int64_t>(batch)) {
    fail_custody(Breach::kWrongProof, "{}: {} samples were due, {} came", passage_text(passage),
                 batch, sums.tensor.shape()[0]);
  }
  const std::span<const std::int32_t> values = sums.tensor.values<std::int32_t>();
  out.values.assign(values.begin(), values.end());
  return out;
}

}  // namespace harmonics::inline in_proven
