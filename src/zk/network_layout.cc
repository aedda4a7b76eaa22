#include "network_layout.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace harmonics::zk {
namespace {

constexpr int kInputBits = 8;

// 1, 2, 4, …, and one more such that all together are `most`.
std::vector<std::int64_t> worth_up_to(std::int64_t most) {
  std::vector<std::int64_t> worth;
  std::int64_t sum = 0;
  while (2 * sum + 1 <= most) {
    worth.push_back(sum + 1);
    sum = 2 * sum + 1;
  }
  if (sum < most) worth.push_back(most - sum);
  return worth;
}

std::int64_t most_of_bits(int bits) { return (std::int64_t{1} << bits) - 1; }

// Two sums are at most 2^(excess + 31 + 1) apart.
int short_bits(const NetworkLayer& layer) { return excess_bits(layer) + kNetworkFactorBits + 1; }

std::size_t rows_of_layer(const NetworkLayer& layer) {
  const std::size_t rows = static_cast<std::size_t>(kNetworkFactorBits) +
                           worth_up_to(127 - lowest(layer)).size() +
                           2 * static_cast<std::size_t>(excess_bits(layer));
  return layer.pool ? rows + kWindow * static_cast<std::size_t>(short_bits(layer)) + kWindow - 1
                    : rows;
}

LinearRow number(const BitRows& bits, std::uint32_t width, std::int64_t factor = 1) {
  LinearRow row{{}, bits.low * factor, width};
  for (std::size_t i = 0; i < bits.worth.size(); ++i) {
    row.terms.push_back({bits.first + static_cast<std::uint32_t>(i), bits.worth[i] * factor});
  }
  return row;
}

void append(LinearRow& row, const LinearRow& other) {
  row.terms.insert(row.terms.end(), other.terms.begin(), other.terms.end());
  row.constant += other.constant;
}

// Hands out rows and writes down that they hold bits.
class RowMaker {
 public:
  explicit RowMaker(NetworkLayout& layout) : layout_(layout) {}

  BitRows bits(std::uint32_t width, std::int64_t most, std::int64_t low = 0) {
    BitRows out{static_cast<std::uint32_t>(layout_.widths.size()), worth_up_to(most), low};
    for (std::size_t i = 0; i < out.worth.size(); ++i) flag(width);
    return out;
  }
  std::uint32_t flag(std::uint32_t width) {
    const auto row = static_cast<std::uint32_t>(layout_.widths.size());
    layout_.widths.push_back(width);
    layout_.columns = std::max(layout_.columns, width);
    require_zero({{{row, 1}}, 0, width}, {{{row, 1}}, -1, width});
    return row;
  }
  void require_zero(LinearRow left, LinearRow right) {
    layout_.constraints.push_back({std::move(left), std::move(right)});
  }

 private:
  NetworkLayout& layout_;
};

// The last of a window is chosen when none of the others is.
LinearRow chosen_row(const Requantised& r, std::size_t place, std::uint32_t width) {
  if (place + 1 < kWindow) return {{{r.chosen + static_cast<std::uint32_t>(place), 1}}, 0, width};
  LinearRow rest{{}, 1, width};
  for (std::uint32_t i = 0; i + 1 < kWindow; ++i) rest.terms.push_back({r.chosen + i, -1});
  return rest;
}

void add_window(const NetworkLayer& layer, std::uint32_t width, RowMaker& make, Requantised& r) {
  for (BitRows& bits : r.short_of) bits = make.bits(width, most_of_bits(short_bits(layer)));
  r.chosen = make.flag(width);
  for (std::size_t i = 2; i < kWindow; ++i) make.flag(width);
  for (std::size_t place = 0; place < kWindow; ++place) {
    make.require_zero(chosen_row(r, place, width), number(r.short_of[place], width));
  }
  LinearRow last = chosen_row(r, kWindow - 1, width);
  LinearRow less = last;
  less.constant -= 1;
  make.require_zero(std::move(last), std::move(less));
}

Requantised add_layer(const NetworkLayer& layer, RowMaker& make) {
  const auto width = static_cast<std::uint32_t>(layer.data_outputs());
  const std::int64_t low = lowest(layer);
  Requantised r;
  r.remainder = make.bits(width, most_of_bits(kNetworkFactorBits));
  r.value = make.bits(width, 127 - low, low);
  r.above = make.bits(width, most_of_bits(excess_bits(layer)));
  r.below = make.bits(width, most_of_bits(excess_bits(layer)));
  LinearRow to_top = number(r.value, width, -1);
  to_top.constant += 127;
  make.require_zero(number(r.above, width), std::move(to_top));
  LinearRow from_low = number(r.value, width);
  from_low.constant -= low;
  make.require_zero(number(r.below, width), std::move(from_low));
  if (layer.pool) add_window(layer, width, make, r);
  return r;
}

}  // namespace

int excess_bits(const NetworkLayer& layer) {
  // A sum is at most 2^14 per product, and factors are below 1.
  return 14 + static_cast<int>(std::bit_width(layer.shape.weight_columns()));
}

std::int64_t lowest(const NetworkLayer& layer) { return layer.relu ? 0 : -127; }

std::size_t committed_rows(const NetworkLayers& layers, std::uint32_t batch, bool shown) {
  std::size_t rows = shown ? 0 : kInputBits;
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) rows += rows_of_layer(layers[i]);
  return rows * batch;
}

NetworkLayout network_layout(const NetworkLayers& layers, std::uint32_t batch, bool shown) {
  NetworkLayout layout{layers, batch, shown, {}, {}, {}, {}, 1};
  RowMaker make(layout);
  const auto width = static_cast<std::uint32_t>(layers.front().data_inputs());
  for (std::uint32_t n = 0; n < batch && !shown; ++n) {
    layout.inputs.push_back(make.bits(width, most_of_bits(kInputBits), -128));
  }
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
    layout.hidden.emplace_back();
    for (std::uint32_t n = 0; n < batch; ++n) {
      layout.hidden.back().push_back(add_layer(layers[i], make));
    }
  }
  return layout;
}

std::size_t NetworkLayout::rounds() const {
  return constraints.empty() ? 0 : static_cast<std::size_t>(std::bit_width(constraints.size() - 1));
}

LinearRow NetworkLayout::data(std::size_t layer, std::size_t sample) const {
  const auto width = static_cast<std::uint32_t>(layers[layer].data_inputs());
  return number(layer == 0 ? inputs[sample] : hidden[layer - 1][sample].value, width);
}

LinearRow NetworkLayout::scaled(std::size_t layer, std::size_t sample, std::size_t place) const {
  const auto width = static_cast<std::uint32_t>(layers[layer].data_outputs());
  const Requantised& r = hidden[layer][sample];
  constexpr std::int64_t kUnit = std::int64_t{1} << kNetworkFactorBits;
  LinearRow row = number(r.remainder, width);
  append(row, number(r.value, width, kUnit));
  append(row, number(r.above, width, kUnit));
  append(row, number(r.below, width, -kUnit));
  row.constant -= kUnit / 2;
  if (layers[layer].pool) append(row, number(r.short_of[place], width, -1));
  return row;
}

void Combination::add(const Scalar& weight, const LinearRow& row) {
  for (const Term& term : row.terms) {
    rows_[term.row] =
        rows_[term.row] + (term.factor == 1 ? weight : weight * scalar_of(term.factor));
  }
  if (row.constant != 0) add_columns(weight * scalar_of(row.constant), 0, row.width);
}

void Combination::add_columns(const Scalar& weight, std::size_t first, std::size_t count) {
  steps_[first] = steps_[first] + weight;
  steps_[first + count] = steps_[first + count] - weight;
}

Scalars Combination::columns() const {
  Scalars out(steps_.size() - 1);
  Scalar sum;
  for (std::size_t i = 0; i < out.size(); ++i) {
    sum = sum + steps_[i];
    out[i] = sum;
  }
  return out;
}

Derived Combination::derived(const std::vector<AffinePoint>& points) const {
  Derived out;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i] == Scalar{}) continue;
    out.factors.push_back(rows_[i]);
    out.points.push_back(points[i]);
  }
  out.columns = columns();
  return out;
}

Secret Combination::secret(const std::vector<std::vector<std::int8_t>>& values,
                           const Scalars& blindings) const {
  ColumnSums sums(steps_.size() - 1);
  Scalar blinding;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i] == Scalar{}) continue;
    sums.add(rows_[i], values[i]);
    blinding = blinding + rows_[i] * blindings[i];
  }
  Secret out{sums.finish(), blinding};
  const Scalars constants = columns();
  for (std::size_t i = 0; i < constants.size(); ++i) out.values[i] = out.values[i] + constants[i];
  return out;
}

}  // namespace harmonics::zk
