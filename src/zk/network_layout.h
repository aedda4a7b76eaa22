// What a proof of a network commits to, and what must hold of it (private to zk).
//
// Everything between input and outputs is written in bits. A committed row holds one bit of as many
// numbers as a sample has at that place: row (sample, bit), column (channel, pixel). Numbers are
// sums of rows, so commitments to them follow from those to the rows.
//
// Of a layer that scales back, per sample, with T = sum * factor as it comes out of the product:
//   T + 2^30 = 2^31 (y + above - below) + r      y, above, below, r in bits: their ranges
//   above (127 - y) = 0,  below (y - low) = 0    so y is clamped
// Of one that pools T is the largest T of a window of four: T_i = T - short_i, with
//   short_i chosen_i = 0, chosen in bits, the four chosen together 1.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <harmonics/zk/network.h>

#include "core.h"
#include "scalar.h"

namespace harmonics::zk {

struct Term {
  std::uint32_t row = 0;
  std::int64_t factor = 0;
};
/// A sum of committed rows and a constant in each of its `width` columns.
struct LinearRow {
  std::vector<Term> terms;
  std::int64_t constant = 0;
  std::uint32_t width = 0;
};
/// left * right = 0 in every column.
struct Constraint {
  LinearRow left, right;
};

/// Rows of one number, least bit first, and what each bit is worth.
struct BitRows {
  std::uint32_t first = 0;
  std::vector<std::int64_t> worth;
  std::int64_t low = 0;
};

inline constexpr std::size_t kWindow = 4;

/// A sample's numbers behind a layer that scales back.
struct Requantised {
  BitRows remainder, value, above, below;
  /// Where the layer pools: how far each number of a window is from the largest, and which of the
  /// first three is the largest; else unused.
  std::array<BitRows, kWindow> short_of{};
  std::uint32_t chosen = 0;
};

struct NetworkLayout {
  NetworkLayers layers;
  std::uint32_t batch = 0;
  bool shown = false;
  /// Of every committed row.
  std::vector<std::uint32_t> widths;
  /// By sample; empty when the input is shown.
  std::vector<BitRows> inputs;
  /// By layer but the last, then by sample.
  std::vector<std::vector<Requantised>> hidden;
  std::vector<Constraint> constraints;
  /// The widest row.
  std::uint32_t columns = 1;

  /// Rounds of the argument for the constraints.
  [[nodiscard]] std::size_t rounds() const;
  /// The data that layer `layer` takes; of the first only when it is hidden.
  [[nodiscard]] LinearRow data(std::size_t layer, std::size_t sample) const;
  /// T of a layer that scales back, at one place of its windows.
  [[nodiscard]] LinearRow scaled(std::size_t layer, std::size_t sample, std::size_t place) const;
};

/// Rows that a batch takes.
[[nodiscard]] std::size_t committed_rows(const NetworkLayers& layers, std::uint32_t batch,
                                         bool shown);
/// The layers and the number of rows must be sound already.
[[nodiscard]] NetworkLayout network_layout(const NetworkLayers& layers, std::uint32_t batch,
                                           bool shown);

/// Bits that `above` and `below` take: more than any sum of this layer can need.
[[nodiscard]] int excess_bits(const NetworkLayer& layer);
[[nodiscard]] std::int64_t lowest(const NetworkLayer& layer);

/// A combination of rows with random factors, as prover and verifier build it.
class Combination {
 public:
  Combination(std::size_t rows, std::size_t columns) : rows_(rows), steps_(columns + 1) {}

  void add(const Scalar& weight, const LinearRow& row);
  /// Adds to the columns from `first` on.
  void add_columns(const Scalar& weight, std::size_t first, std::size_t count);

  [[nodiscard]] const Scalars& rows() const { return rows_; }
  /// The constants of all columns.
  [[nodiscard]] Scalars columns() const;
  /// The commitment to it.
  [[nodiscard]] Derived derived(const std::vector<AffinePoint>& points) const;
  /// The vector itself, from the rows and their blindings.
  [[nodiscard]] Secret secret(const std::vector<std::vector<std::int8_t>>& values,
                              const Scalars& blindings) const;

 private:
  Scalars rows_;
  Scalars steps_;
};

}  // namespace harmonics::zk
