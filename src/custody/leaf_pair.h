// Two full leaves of a tensor hashed at once (private to custody).
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include <harmonics/custody/digest.h>
#include <harmonics/custody/merkle.h>

namespace harmonics::inline in_custody {

using FullLeaf = std::span<const std::byte, kTensorLeafBytes>;

/// Whether this processor has the SHA-256 instructions that `merkle_leaf_pair` needs.
[[nodiscard]] bool has_leaf_pair();

/// `merkle_leaf` of each. A round of SHA-256 waits for the round before it, so that one message
/// leaves the unit idle half of the time: the rounds of two messages fill it. Without
/// `has_leaf_pair` it is an Error.
[[nodiscard]] std::array<Digest, 2> merkle_leaf_pair(FullLeaf first, FullLeaf second);

}  // namespace harmonics::inline in_custody
