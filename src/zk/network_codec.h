// Proofs and commitments of networks as bytes (private to zk; docs/formats/custody.md).
#pragma once

#include <vector>

#include <harmonics/zk/network.h>

#include "core.h"
#include "network_layout.h"

namespace harmonics::zk {

struct NetworkCommitment {
  NetworkLayers layers;
  /// By layer, one per output.
  std::vector<std::vector<PointBytes>> outputs;
};

struct CorePart {
  Announcement announcement;
  CoreAnswer answer;
};

struct NetworkProof {
  std::uint32_t batch = 0;
  bool shown = false;
  std::vector<std::int8_t> input;
  std::vector<std::int32_t> outputs;
  std::vector<PointBytes> rows;
  /// Of the rounds of the argument for the constraints, two each.
  std::vector<PointBytes> rounds;
  /// Of each layer's shifted sums; unused where it is dense.
  std::vector<PointBytes> sums;
  /// One per layer, then that of the constraints if there are any.
  std::vector<CorePart> parts;
};

[[nodiscard]] Bytes encode_network(const NetworkCommitment& commitment);
[[nodiscard]] NetworkCommitment decode_network(ByteSpan bytes);

[[nodiscard]] Bytes encode_network_proof(const NetworkProof& proof, const NetworkLayout& layout);
/// The size follows from the layers, the batch and whether the input is shown, and is checked
/// before anything else is read. Anything else is a CustodyError (kMalformed).
[[nodiscard]] NetworkProof decode_network_proof(ByteSpan bytes, const NetworkLayers& layers);

/// An Error (kResourceExhausted) for a proof that would be above the limits.
void require_provable(const NetworkLayers& layers, std::uint32_t batch, bool shown);

}  // namespace harmonics::zk
