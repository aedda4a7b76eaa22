#include "network_witness.h"

#include <algorithm>

#include <harmonics/base/error.h>

namespace harmonics::zk {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kUnit = std::int64_t{1} << kNetworkFactorBits;

// A layer's input with its constants, for all samples.
std::vector<std::int8_t> with_constants(const NetworkLayer& layer,
                                        std::span<const std::int8_t> data) {
  std::vector<std::int8_t> out;
  const std::size_t per_sample = layer.data_inputs();
  for (std::size_t at = 0; at < data.size(); at += per_sample) {
    const auto sample = data.subspan(at, per_sample);
    out.insert(out.end(), sample.begin(), sample.end());
    for (const std::int8_t value : layer.constants) {
      out.insert(out.end(), layer.shape.pixels(), value);
    }
  }
  return out;
}

// sum * factor of one sample, at one place of the windows.
Numbers scaled_sums(const NetworkLayer& layer, const LayerParameters& parameters,
                    std::span<const std::int32_t> sums, std::size_t place) {
  Numbers out(layer.data_outputs());
  const std::size_t per_output = out.size() / layer.shape.outputs;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] =
        std::int64_t{sums[place_in_sums(layer, place, i)]} * parameters.factors[i / per_output];
  }
  return out;
}

// The largest of each window, and what the rows say of how it was found.
Numbers pooled(const NetworkLayer& layer, const LayerParameters& parameters,
               std::span<const std::int32_t> sums, const Requantised& rows,
               NetworkWitness& witness) {
  if (!layer.pool) return scaled_sums(layer, parameters, sums, 0);
  std::array<Numbers, kWindow> window;
  for (std::size_t place = 0; place < kWindow; ++place) {
    window[place] = scaled_sums(layer, parameters, sums, place);
  }
  Numbers largest = window[0];
  std::vector<std::size_t> chosen(largest.size(), 0);
  for (std::size_t place = 1; place < kWindow; ++place) {
    for (std::size_t i = 0; i < largest.size(); ++i) {
      if (window[place][i] <= largest[i]) continue;
      largest[i] = window[place][i];
      chosen[i] = place;
    }
  }
  for (std::size_t place = 0; place < kWindow; ++place) {
    for (std::size_t i = 0; i < largest.size(); ++i) {
      window[place][i] = largest[i] - window[place][i];
      if (place + 1 < kWindow && chosen[i] == place) witness.rows[rows.chosen + place][i] = 1;
    }
    write_bits(rows.short_of[place], window[place], witness);
  }
  return largest;
}

// Scales back one sample: gives what the next layer takes.
void requantise(const NetworkLayer& layer, const Numbers& scaled, const Requantised& rows,
                NetworkWitness& witness, std::vector<std::int8_t>& out) {
  Numbers remainder, value, above, below;
  for (const std::int64_t number : scaled) {
    const std::int64_t rounded = (number + kUnit / 2) >> kNetworkFactorBits;
    const std::int64_t clamped = std::clamp<std::int64_t>(rounded, lowest(layer), 127);
    remainder.push_back(number + kUnit / 2 - rounded * kUnit);
    value.push_back(clamped);
    above.push_back(std::max<std::int64_t>(rounded - clamped, 0));
    below.push_back(std::max<std::int64_t>(clamped - rounded, 0));
    out.push_back(static_cast<std::int8_t>(clamped));
  }
  write_bits(rows.remainder, remainder, witness);
  write_bits(rows.value, value, witness);
  write_bits(rows.above, above, witness);
  write_bits(rows.below, below, witness);
}

std::vector<std::int32_t> sums_of(const NetworkLayer& layer, std::uint32_t batch,
                                  const LayerParameters& parameters,
                                  std::span<const std::int8_t> data) {
  LinearShape shape = layer.shape;
  shape.batch = batch;
  return linear_product(shape, with_constants(layer, data), parameters.weights);
}

}  // namespace

std::size_t place_in_sums(const NetworkLayer& layer, std::size_t place, std::size_t column) {
  if (!layer.pool) return column;
  const std::size_t width = layer.shape.width / 2;
  const std::size_t per_output = layer.shape.pixels() / kWindow;
  const std::size_t y = column % per_output / width * 2 + place / 2;
  const std::size_t x = column % width * 2 + place % 2;
  return column / per_output * layer.shape.pixels() + y * layer.shape.width + x;
}

void write_bits(const BitRows& bits, std::span<const std::int64_t> numbers,
                NetworkWitness& witness) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::int64_t rest = numbers[i] - bits.low;
    for (std::size_t bit = bits.worth.size(); bit-- > 0;) {
      const bool set = rest >= bits.worth[bit];
      witness.rows[bits.first + bit][i] = set ? 1 : 0;
      if (set) rest -= bits.worth[bit];
    }
    if (rest != 0) {
      fail(ErrorCode::kOutOfRange, "{} does not fit into {} bits from {} on", numbers[i],
           bits.worth.size(), bits.low);
    }
  }
}

Numbers numbers_of(const LinearRow& row, const std::vector<std::vector<std::int8_t>>& rows) {
  Numbers out(row.width, row.constant);
  for (const Term& term : row.terms) {
    const std::vector<std::int8_t>& values = rows[term.row];
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += term.factor * values[i];
  }
  return out;
}

NetworkWitness network_witness(const NetworkLayout& layout,
                               std::span<const LayerParameters> parameters,
                               std::span<const std::int8_t> input) {
  NetworkWitness witness;
  for (const std::uint32_t width : layout.widths) witness.rows.emplace_back(width, 0);
  if (layout.shown) witness.input.assign(input.begin(), input.end());
  for (std::size_t n = 0; n < layout.inputs.size(); ++n) {
    const std::size_t width = layout.layers.front().data_inputs();
    const auto sample = input.subspan(n * width, width);
    write_bits(layout.inputs[n], Numbers(sample.begin(), sample.end()), witness);
  }
  std::vector<std::int8_t> data(input.begin(), input.end());
  for (std::size_t i = 0; i + 1 < layout.layers.size(); ++i) {
    const NetworkLayer& layer = layout.layers[i];
    const std::vector<std::int32_t> sums = sums_of(layer, layout.batch, parameters[i], data);
    const std::size_t per_sample = sums.size() / layout.batch;
    data.clear();
    for (std::size_t n = 0; n < layout.batch; ++n) {
      const Requantised& rows = layout.hidden[i][n];
      const auto of_sample = std::span(sums).subspan(n * per_sample, per_sample);
      requantise(layer, pooled(layer, parameters[i], of_sample, rows, witness), rows, witness,
                 data);
    }
  }
  witness.outputs = sums_of(layout.layers.back(), layout.batch, parameters.back(), data);
  return witness;
}

}  // namespace harmonics::zk
