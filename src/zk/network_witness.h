// What the prover of a network knows: every committed bit (private to zk).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "network_layout.h"

namespace harmonics::zk {

struct NetworkWitness {
  /// Of every committed row.
  std::vector<std::vector<std::int8_t>> rows;
  /// When it is shown; else empty.
  std::vector<std::int8_t> input;
  std::vector<std::int32_t> outputs;
};

/// Computes the network. The parameters must fit the layers.
[[nodiscard]] NetworkWitness network_witness(const NetworkLayout& layout,
                                             std::span<const LayerParameters> parameters,
                                             std::span<const std::int8_t> input);

/// Writes numbers into the rows of their bits; numbers that do not fit are an Error (kOutOfRange).
void write_bits(const BitRows& bits, std::span<const std::int64_t> numbers,
                NetworkWitness& witness);
/// The numbers that a row stands for.
[[nodiscard]] std::vector<std::int64_t> numbers_of(
    const LinearRow& row, const std::vector<std::vector<std::int8_t>>& rows);

/// Where number `column` of a window's place lies among the sums of one sample.
[[nodiscard]] std::size_t place_in_sums(const NetworkLayer& layer, std::size_t place,
                                        std::size_t column);

}  // namespace harmonics::zk
