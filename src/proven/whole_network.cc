#include "whole_network.h"

#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>

#include "proven_part.h"

namespace harmonics::inline in_proven {

NetworkSender::NetworkSender(const Int8Network& network, std::string boundary, CustodyLog& log,
                             Transport& end, Nanoseconds patience)
    : network_(network),
      boundary_(std::move(boundary)),
      log_(log),
      end_(end),
      patience_(patience) {}

void NetworkSender::announce() {
  commitment_ = commit_network(provable_layers(network_), provable_parameters(network_), seed_);
  log_.committed_weights(0, commitment_);
  end_.send({MessageKind::kControl, 0, 0, byte_tensor(commitment_), {}}, deadline_in(patience_));
}

void NetworkSender::send(std::uint64_t step, const std::vector<std::int8_t>& input) {
  const Passage passage{boundary_, Direction::kForward, step, 0};
  const std::vector<std::int8_t> data = without_constants(network_, input);
  const Digest context = log_.context_of(passage);
  const Bytes proof = prove_network({commitment_, provable_parameters(network_), seed_},
                                    {data, false, new_blinding_seed()}, context);
  const NetworkClaim claim = read_network_claim(proof, commitment_);
  LinearShape shape = network_.layers.back().shape;
  shape.batch = claim.batch;
  const Tensor tensor =
      Tensor::of<std::int32_t>(sums_shape(shape), std::span<const std::int32_t>(claim.outputs));
  Bytes attachment = log_.sign_outgoing(passage, view_of(tensor), proof);
  end_.send({MessageKind::kActivation, step, 0, tensor, std::move(attachment)},
            deadline_in(patience_));
  end_.send({MessageKind::kControl, step, 0, byte_tensor(proof), {}}, deadline_in(patience_));
}

NetworkReceiver::NetworkReceiver(NetworkLayers layers, std::string boundary, CustodyLog& log,
                                 Transport& end, Nanoseconds patience)
    : layers_(std::move(layers)),
      boundary_(std::move(boundary)),
      log_(log),
      end_(end),
      patience_(patience) {}

std::vector<std::int32_t> NetworkReceiver::receive(std::uint64_t step, std::uint32_t batch) {
  if (commitment_.empty()) {
    const Message message = next_message(end_, boundary_, MessageKind::kControl, 0, patience_);
    const ByteSpan bytes = message.tensor.bytes();
    commitment_.assign(bytes.begin(), bytes.end());
    if (committed_layers(commitment_) != layers_) {
      fail_custody(Breach::kWrongWeights, "boundary '{}': another network was committed to",
                   boundary_);
    }
  }
  const Message sums = next_message(end_, boundary_, MessageKind::kActivation, step, patience_);
  const Message proof = next_message(end_, boundary_, MessageKind::kControl, step, patience_);
  const Passage passage{boundary_, Direction::kForward, step, 0};
  const Link link =
      log_.check_incoming(passage, view_of(sums.tensor), sums.attachment, proof.tensor.bytes());
  check_weights(link, commitment_);
  check_link_proof(link, proof.tensor.bytes(), commitment_);
  LinearShape shape = layers_.back().shape;
  shape.batch = batch;
  if (sums.tensor.dtype() != DType::kInt32 || sums.tensor.shape() != sums_shape(shape)) {
    fail_custody(Breach::kWrongProof, "{}: the tensor is not one of this network",
                 passage_text(passage));
  }
  const std::span<const std::int32_t> values = sums.tensor.values<std::int32_t>();
  return {values.begin(), values.end()};
}

}  // namespace harmonics::inline in_proven
