// The prover of a network with its witness as an argument (private to zk): tests prove what is
// wrong.
#pragma once

#include "network_codec.h"
#include "network_witness.h"

namespace harmonics::zk {

/// Proves what the witness says, whether it is right or not.
[[nodiscard]] Bytes prove_witness(const NetworkSecrets& network, const NetworkLayout& layout,
                                  const NetworkWitness& witness, const BlindingSeed& input_seed,
                                  const Digest& context);

/// The commitment to one row.
[[nodiscard]] PointBytes commit_bits(std::span<const std::int8_t> values, const Scalar& blinding);

}  // namespace harmonics::zk
