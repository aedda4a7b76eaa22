// Proofs of whole networks: honest ones are accepted, and no number in between can be another.
#include <harmonics/zk/network.h>

#include <gtest/gtest.h>

#include <harmonics/base/error.h>

#include <campaign_testing.h>

#include "network_prover.h"
#include "network_testing.h"
#include "network_witness.h"
#include "residue.h"

namespace harmonics::inline in_zk {
namespace {

NetworkLayers small_network() {
  return {dense_layer(4, 5, true, {127, 1}), dense_layer(5, 3, false, {1}),
          dense_layer(3, 2, false)};
}

std::vector<NetworkLayers> some_networks() {
  return {{dense_layer(3, 2, false)},
          {dense_layer(1, 1, true), dense_layer(1, 1, false)},
          small_network(),
          {dense_layer(9, 40, true), dense_layer(40, 30, true, {127, 127, 1}),
           dense_layer(30, 4, false, {1})},
          {conv_layer(1, 2, {3, 4}, false, {1}), dense_layer(24, 3, false)},
          {conv_layer(2, 3, {4, 6}, true), conv_layer(3, 2, {2, 3}, false, {127, 1}),
           dense_layer(12, 5, true), dense_layer(5, 2, false)},
          {conv_layer(1, 2, {2, 2}, true), dense_layer(2, 3, false)}};
}

// The network once more, as its documentation says it.
std::vector<std::int32_t> computed(const TestNetwork& network) {
  std::vector<std::int8_t> data = network.input;
  std::vector<std::int32_t> sums;
  for (const TestLayer& of : network.layers) {
    LinearShape shape = of.layer.shape;
    const std::size_t per_sample = of.layer.data_inputs();
    shape.batch = static_cast<std::uint32_t>(data.size() / per_sample);
    std::vector<std::int8_t> whole;
    for (std::size_t at = 0; at < data.size(); at += per_sample) {
      whole.insert(whole.end(), data.begin() + static_cast<std::ptrdiff_t>(at),
                   data.begin() + static_cast<std::ptrdiff_t>(at + per_sample));
      for (const std::int8_t value : of.layer.constants) {
        whole.insert(whole.end(), shape.pixels(), value);
      }
    }
    sums = linear_product(shape, whole, of.weights);
    if (of.factors.empty()) break;
    std::vector<std::int8_t> scaled;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      std::int64_t sum = sums[i];
      if (of.layer.relu) sum = std::max<std::int64_t>(sum, 0);
      sum = sum * of.factors[i / shape.pixels() % shape.outputs] + (std::int64_t{1} << 30);
      scaled.push_back(static_cast<std::int8_t>(std::clamp<std::int64_t>(sum >> 31, -127, 127)));
    }
    data = scaled;
    if (!of.layer.pool) continue;
    data.clear();
    for (std::size_t plane = 0; plane < scaled.size() / shape.pixels(); ++plane) {
      for (std::size_t y = 0; y < shape.height; y += 2) {
        for (std::size_t x = 0; x < shape.width; x += 2) {
          const std::int8_t* at = &scaled[plane * shape.pixels() + y * shape.width + x];
          data.push_back(std::max({at[0], at[1], at[shape.width], at[shape.width + 1]}));
        }
      }
    }
  }
  return sums;
}

TEST(ZkNetwork, ResiduesAreScalars) {
  const zk::Scalars a = zk::random_scalars(50);
  const zk::Scalars b = zk::random_scalars(50);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const zk::Residue left = zk::residue_of(a[i]);
    const zk::Residue right = zk::residue_of(b[i]);
    EXPECT_EQ(zk::scalar_of(left), a[i]);
    EXPECT_EQ(zk::scalar_of(left * right), a[i] * b[i]);
    EXPECT_EQ(zk::scalar_of(left + right), a[i] + b[i]);
    EXPECT_EQ(zk::scalar_of(left - right), a[i] - b[i]);
    EXPECT_EQ(zk::scalar_of(left - left), zk::Scalar{});
  }
}

TEST(ZkNetwork, HonestProofsVerifyAndSayWhatWasComputed) {
  std::uint64_t seed = 1;
  for (const NetworkLayers& layers : some_networks()) {
    for (const bool shown : {false, true}) {
      TestNetwork network(layers, 1 + seed % 3, seed);
      ++seed;
      network.shown = shown;
      const Bytes proof = network.prove();
      const NetworkClaim claim = verify_network_proof(proof, network.commitment, network.context);
      EXPECT_EQ(claim.outputs, computed(network)) << seed;
      EXPECT_EQ(claim.input, shown ? network.input : std::vector<std::int8_t>());
      EXPECT_EQ(claim.batch, network.input.size() / layers.front().data_inputs());
    }
  }
}

TEST(ZkNetwork, TheLargestNumbersVerify) {
  for (const std::int8_t weight : {std::int8_t{-128}, std::int8_t{127}}) {
    for (const NetworkLayers& layers :
         {small_network(),
          NetworkLayers{conv_layer(2, 1, {2, 2}, true), dense_layer(1, 1, false)}}) {
      TestNetwork network(layers, 2, 5);
      std::ranges::fill(network.input, std::int8_t{-128});
      for (TestLayer& layer : network.layers) {
        std::ranges::fill(layer.weights, weight);
        std::ranges::fill(layer.factors, 2147483647);
      }
      network.commit();
      EXPECT_FALSE(network.verdict(network.prove()));
    }
  }
}

// One number of a layer, in every way that it may be wrong.
class Forger {
 public:
  explicit Forger(const TestNetwork& network)
      : network_(network),
        parameters_(network.parameters()),
        layout_(zk::network_layout(
            network.public_layers(),
            static_cast<std::uint32_t>(network.input.size() /
                                       network.layers.front().layer.data_inputs()),
            network.shown)),
        honest_(zk::network_witness(layout_, parameters_, network.input)),
        forged_(honest_) {}

  [[nodiscard]] const zk::NetworkLayout& layout() const { return layout_; }
  zk::NetworkWitness& forged() { return forged_; }

  /// Adds to one number, in bits where it fits into them, else to its least bit.
  void add(const zk::BitRows& bits, std::size_t column, std::int64_t difference) {
    const zk::LinearRow row = number(bits);
    const std::int64_t is = zk::numbers_of(row, forged_.rows)[column] + difference;
    std::int64_t most = bits.low;
    for (const std::int64_t worth : bits.worth) most += worth;
    if (is < bits.low || is > most) {
      forged_.rows[bits.first][column] =
          static_cast<std::int8_t>(forged_.rows[bits.first][column] + difference);
      return;
    }
    std::int64_t rest = is - bits.low;
    for (std::size_t bit = bits.worth.size(); bit-- > 0;) {
      const bool set = rest >= bits.worth[bit];
      forged_.rows[bits.first + bit][column] = set ? 1 : 0;
      if (set) rest -= bits.worth[bit];
    }
  }
  void flip(std::size_t row, std::size_t column) { forged_.rows[row][column] ^= 1; }

  /// The sum behind a column is one more or less, and all that follows is computed from that.
  void add_to_sum(std::size_t layer, std::size_t sample, std::size_t column, int difference) {
    const zk::Requantised& rows = layout_.hidden[layer][sample];
    const NetworkLayer& of = layout_.layers[layer];
    const std::size_t per_output = of.data_outputs() / of.shape.outputs;
    const std::int64_t change =
        std::int64_t{difference} * parameters_[layer].factors[column / per_output];
    std::int64_t scaled = zk::numbers_of(layout_.scaled(layer, sample, 0), honest_.rows)[column] +
                          change + (std::int64_t{1} << 30);
    if (of.pool) scaled += zk::numbers_of(number(rows.short_of[0]), honest_.rows)[column];
    const std::int64_t rounded = scaled >> 31;
    const std::int64_t value = std::clamp<std::int64_t>(rounded, zk::lowest(of), 127);
    set(rows.remainder, column, scaled - (rounded << 31));
    set(rows.value, column, value);
    set(rows.above, column, std::max<std::int64_t>(rounded - value, 0));
    set(rows.below, column, std::max<std::int64_t>(value - rounded, 0));
    for (std::size_t place = 0; of.pool && place < zk::kWindow; ++place) {
      // The sum is the largest of its window; the others stay what they are.
      const zk::BitRows& bits = rows.short_of[place];
      if (zk::numbers_of(number(bits), honest_.rows)[column] == 0) continue;
      add(bits, column, change);
    }
    compute_from(layer + 1);
  }

  /// Whether a verifier takes what was forged; begins anew.
  [[nodiscard]] bool accepted() {
    const Bytes proof = zk::prove_witness({network_.commitment, parameters_, network_.seed},
                                          layout_, forged_, network_.input_seed, network_.context);
    forged_ = honest_;
    return !network_.verdict(proof);
  }

 private:
  [[nodiscard]] zk::LinearRow number(const zk::BitRows& bits) const {
    zk::LinearRow row{{}, bits.low, layout_.widths[bits.first]};
    for (std::size_t i = 0; i < bits.worth.size(); ++i) {
      row.terms.push_back({bits.first + static_cast<std::uint32_t>(i), bits.worth[i]});
    }
    return row;
  }
  void set(const zk::BitRows& bits, std::size_t column, std::int64_t value) {
    add(bits, column, value - zk::numbers_of(number(bits), forged_.rows)[column]);
  }

  // The layers from here on, honestly, from the forged values before them.
  void compute_from(std::size_t first) {
    std::vector<std::int8_t> data;
    for (std::size_t n = 0; n < layout_.batch; ++n) {
      for (const std::int64_t value : zk::numbers_of(layout_.data(first, n), forged_.rows)) {
        data.push_back(static_cast<std::int8_t>(value));
      }
    }
    const NetworkLayers rest(layout_.layers.begin() + static_cast<std::ptrdiff_t>(first),
                             layout_.layers.end());
    const zk::NetworkLayout layout = zk::network_layout(rest, layout_.batch, true);
    zk::NetworkWitness computed =
        zk::network_witness(layout, std::span(parameters_).subspan(first), data);
    std::ranges::move(computed.rows,
                      forged_.rows.end() - static_cast<std::ptrdiff_t>(computed.rows.size()));
    forged_.outputs = computed.outputs;
  }

  const TestNetwork& network_;
  const std::vector<LayerParameters> parameters_;
  const zk::NetworkLayout layout_;
  const zk::NetworkWitness honest_;
  zk::NetworkWitness forged_;
};

// Everything that stands in one column of one sample behind a layer, changed by one.
void expect_column_counts(Forger& forger, std::size_t layer, std::size_t sample,
                          std::size_t column) {
  const zk::Requantised& rows = forger.layout().hidden[layer][sample];
  const auto where = [&] {
    return format("layer {}, sample {}, column {}", layer, sample, column);
  };
  for (const int difference : {1, -1}) {
    for (const zk::BitRows* bits : {&rows.remainder, &rows.value, &rows.above, &rows.below}) {
      forger.add(*bits, column, difference);
      EXPECT_FALSE(forger.accepted()) << where() << ", rows from " << bits->first;
    }
    // The same sum in other words: only a clamp that is none speaks against it.
    forger.add(rows.value, column, difference);
    forger.add(difference > 0 ? rows.below : rows.above, column, 1);
    EXPECT_FALSE(forger.accepted()) << where() << ", shifted";
    forger.add_to_sum(layer, sample, column, difference);
    EXPECT_FALSE(forger.accepted()) << where() << ", its sum";
  }
}

TEST(ZkNetwork, EveryNumberInBetweenCounts) {
  const TestNetwork network(
      {dense_layer(2, 3, true, {127, 1}), dense_layer(3, 2, false, {1}), dense_layer(2, 2, false)},
      2, 11);
  Forger forger(network);
  EXPECT_TRUE(forger.accepted());
  for (std::size_t layer = 0; layer < 2; ++layer) {
    for (std::size_t sample = 0; sample < 2; ++sample) {
      for (std::size_t i = 0; i < network.layers[layer].layer.data_outputs(); ++i) {
        expect_column_counts(forger, layer, sample, i);
      }
    }
  }
  for (std::int32_t i = 0; i < 4; ++i) {
    for (const int difference : {1, -1}) {
      forger.forged().outputs[static_cast<std::size_t>(i)] += difference;
      EXPECT_FALSE(forger.accepted()) << "output " << i;
    }
  }
  for (std::size_t i = 0; i < 4; ++i) {
    for (const int difference : {1, -1}) {
      forger.add(forger.layout().inputs[i / 2], i % 2, difference);
      EXPECT_FALSE(forger.accepted()) << "input " << i;
    }
  }
}

TEST(ZkNetwork, EveryNumberBehindAConvolutionCounts) {
  const TestNetwork network({conv_layer(1, 2, {2, 2}, false, {1}), dense_layer(8, 2, false)}, 1,
                            23);
  Forger forger(network);
  EXPECT_TRUE(forger.accepted());
  for (std::size_t column = 0; column < 8; ++column) expect_column_counts(forger, 0, 0, column);
}

TEST(ZkNetwork, EveryNumberOfAWindowCounts) {
  const TestNetwork network({conv_layer(1, 2, {2, 4}, true), dense_layer(4, 2, false)}, 1, 12);
  Forger forger(network);
  EXPECT_TRUE(forger.accepted());
  const zk::Requantised& rows = forger.layout().hidden[0][0];
  for (std::size_t column = 0; column < 4; ++column) {
    expect_column_counts(forger, 0, 0, column);
    for (const zk::BitRows& bits : rows.short_of) {
      for (const int difference : {1, -1}) {
        forger.add(bits, column, difference);
        EXPECT_FALSE(forger.accepted()) << "column " << column << ", rows from " << bits.first;
      }
    }
    for (std::size_t place = 0; place + 1 < zk::kWindow; ++place) {
      forger.flip(rows.chosen + place, column);
      EXPECT_FALSE(forger.accepted()) << "column " << column << ", place " << place;
    }
    // A number above the largest: all that it is short of is one more, and so is the sum.
    for (const zk::BitRows& bits : rows.short_of) forger.add(bits, column, 1);
    forger.add(rows.remainder, column, 1);
    EXPECT_FALSE(forger.accepted()) << "column " << column << ", none chosen";
  }
}

// In the shape of the shipped network, at positions drawn from all of it.
TEST(ZkNetwork, NumbersInBetweenCountAtFullSize) {
  const TestNetwork network(
      {dense_layer(64, 256, true, {127, 1}), dense_layer(256, 128, true, {127, 1}),
       dense_layer(128, 10, false, {127, 1})},
      2, 21);
  Forger forger(network);
  EXPECT_TRUE(forger.accepted());
  Random random(22, "positions");
  for (std::size_t i = campaign(8, 2000); i-- > 0;) {
    const std::size_t layer = random.below(2);
    const std::size_t column = random.below(layer == 0 ? 256 : 128);
    const std::size_t sample = random.below(2);
    const zk::Requantised& rows = forger.layout().hidden[layer][sample];
    const int difference = random.below(2) == 0 ? 1 : -1;
    switch (random.below(5)) {
      case 0: forger.add(rows.remainder, column, difference); break;
      case 1: forger.add(rows.value, column, difference); break;
      case 2: forger.add(rows.above, column, difference); break;
      case 3: forger.add(rows.below, column, difference); break;
      default: forger.add_to_sum(layer, sample, column, difference);
    }
    EXPECT_FALSE(forger.accepted()) << "layer " << layer << ", column " << column;
  }
}

// Rows that make the right sums of what are no bits.
TEST(ZkNetwork, OnlyBitsAreBits) {
  const TestNetwork network(small_network(), 2, 13);
  Forger forger(network);
  for (std::size_t row = 0; row + 1 < forger.layout().widths.size(); row += 7) {
    auto& rows = forger.forged().rows;
    rows[row][0] = static_cast<std::int8_t>(rows[row][0] + 2);
    rows[row + 1][0] = static_cast<std::int8_t>(rows[row + 1][0] - 1);
    EXPECT_FALSE(forger.accepted()) << "row " << row;
  }
}

TEST(ZkNetwork, ProofsAreForOneContextOneNetworkAndOneInput) {
  TestNetwork network(small_network(), 2, 14);
  TestNetwork other = network;
  const Bytes proof = network.prove();
  EXPECT_FALSE(network.verdict(proof));
  other.context = sha256(bytes_of("another context"));
  EXPECT_EQ(other.verdict(proof), Breach::kWrongProof);
  other = network;
  ++other.layers[1].weights[3];
  other.commit();
  EXPECT_EQ(other.verdict(proof), Breach::kWrongProof);
  other = network;
  ++other.layers[0].factors[2];
  other.commit();
  EXPECT_EQ(other.verdict(proof), Breach::kWrongProof);
  // The same network under another seed is another commitment.
  other = network;
  other.seed = new_blinding_seed();
  other.commit();
  EXPECT_EQ(other.verdict(proof), Breach::kWrongProof);
  other = network;
  other.layers[0].layer.relu = false;
  other.commit();
  EXPECT_EQ(other.verdict(proof), Breach::kMalformed);

  check_network_input(proof, network.commitment, network.input, network.input_seed);
  ++network.input[5];
  EXPECT_THROW(check_network_input(proof, network.commitment, network.input, network.input_seed),
               CustodyError);
}

// Every byte is part of the statement or of its proof.
TEST(ZkNetwork, NoByteOfAProofCanChange) {
  for (const bool shown : {false, true}) {
    TestNetwork network({dense_layer(2, 2, true), dense_layer(2, 2, false)}, 1, 15);
    network.shown = shown;
    const Bytes proof = network.prove();
    Random random(1, "bytes");
    for (std::size_t at = 0; at < proof.size(); at += at < 64 ? 1 : 23) {
      Bytes changed = proof;
      changed[at] ^= static_cast<std::byte>(1 + random.below(255));
      EXPECT_TRUE(network.verdict(changed)) << "byte " << at << " of " << proof.size();
    }
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, proof.size() - 32, proof.size() - 1}) {
      EXPECT_EQ(network.verdict(ByteSpan(proof).first(size)), Breach::kMalformed);
    }
    Bytes longer = proof;
    longer.resize(proof.size() + 32);
    EXPECT_EQ(network.verdict(longer), Breach::kMalformed);
  }
}

// What stands at one place of a proof of 32 bytes each, exchanged with its neighbour.
TEST(ZkNetwork, NothingInAProofCanChangePlaces) {
  const TestNetwork network({dense_layer(2, 2, true), dense_layer(2, 2, false)}, 1, 16);
  const Bytes proof = network.prove();
  const std::size_t head = proof.size() % 32;
  for (std::size_t at = head; at + 64 <= proof.size(); at += 32) {
    Bytes changed = proof;
    std::swap_ranges(changed.begin() + static_cast<std::ptrdiff_t>(at),
                     changed.begin() + static_cast<std::ptrdiff_t>(at + 32),
                     changed.begin() + static_cast<std::ptrdiff_t>(at + 32));
    if (changed == proof) continue;
    EXPECT_TRUE(network.verdict(changed)) << "at " << at;
  }
}

// Parts of two proofs of one network do not fit together.
TEST(ZkNetwork, PartsOfAnotherProofDoNotFit) {
  const TestNetwork network(small_network(), 1, 17);
  TestNetwork other = network;
  ++other.input[0];
  const Bytes proof = network.prove();
  for (const Bytes& second : {network.prove(), other.prove()}) {
    ASSERT_EQ(second.size(), proof.size());
    for (std::size_t cut = 64; cut < proof.size(); cut += 640) {
      Bytes mixed(proof.begin(), proof.begin() + static_cast<std::ptrdiff_t>(cut));
      mixed.insert(mixed.end(), second.begin() + static_cast<std::ptrdiff_t>(cut), second.end());
      // The input and its seed are the same, and so are the commitments to it.
      if (mixed == second) continue;
      EXPECT_TRUE(network.verdict(mixed)) << "cut at " << cut;
    }
  }
}

TEST(ZkNetwork, ManyProofsAreCheckedAtOnceAndTheWrongOneIsNamed) {
  TestNetwork network(small_network(), 1, 18);
  std::vector<Bytes> proofs;
  std::vector<ContextProof> all;
  for (int i = 0; i < 4; ++i) {
    network.context = sha256(bytes_of(std::to_string(i)));
    network.input[0] = static_cast<std::int8_t>(i);
    network.shown = i % 2 == 1;
    proofs.push_back(network.prove());
  }
  for (int i = 0; i < 4; ++i) {
    all.push_back({proofs[static_cast<std::size_t>(i)], sha256(bytes_of(std::to_string(i)))});
  }
  const std::vector<NetworkClaim> claims = verify_network_proofs(all, network.commitment);
  ASSERT_EQ(claims.size(), 4U);
  EXPECT_EQ(claims[3].outputs, computed(network));
  std::swap(all[2].context, all[1].context);
  try {
    (void)verify_network_proofs(all, network.commitment);
    ADD_FAILURE() << "proofs for another context";
  } catch (const CustodyError& error) {
    EXPECT_EQ(error.breach(), Breach::kWrongProof);
    EXPECT_NE(std::string(error.what()).find("proof 2 of 4"), std::string::npos) << error.what();
  }
  EXPECT_THROW((void)verify_network_proofs(std::vector<ContextProof>(kMaxNetworkProofs + 1),
                                           network.commitment),
               Error);
}

TEST(ZkNetwork, ProofsOfOneInputShareNothingHidden) {
  const TestNetwork network(small_network(), 1, 19);
  const Bytes one = network.prove();
  const Bytes two = network.prove();
  // Head, outputs and the input's rows follow from the input and its seed; the rest is new.
  const std::size_t same = 6 + 8 + 32 * 8;
  ASSERT_EQ(one.size(), two.size());
  EXPECT_TRUE(std::equal(one.begin(), one.begin() + same, two.begin()));
  for (std::size_t at = same; at + 32 <= one.size(); at += 32) {
    EXPECT_FALSE(std::equal(one.begin() + static_cast<std::ptrdiff_t>(at),
                            one.begin() + static_cast<std::ptrdiff_t>(at + 32),
                            two.begin() + static_cast<std::ptrdiff_t>(at)))
        << at;
  }
}

TEST(ZkNetwork, WhatCannotBeProvenIsAnError) {
  EXPECT_EQ(network_problem(small_network()), "");
  EXPECT_NE(network_problem({}), "");
  EXPECT_NE(network_problem({dense_layer(2, 3, true), dense_layer(2, 1, false)}), "");
  EXPECT_NE(network_problem({dense_layer(2, 3, true)}), "");
  EXPECT_NE(network_problem({conv_layer(1, 1, {3, 2}, true), dense_layer(1, 1, false)}), "");
  EXPECT_NE(network_problem({dense_layer(1, 70'000, false)}), "");
  EXPECT_NE(network_problem({conv_layer(500, 1, {2, 2}, true), dense_layer(1, 1, false)}), "");
  EXPECT_NE(network_problem(NetworkLayers(kMaxNetworkLayers + 1, dense_layer(1, 1, false))), "");
  TestNetwork network(small_network(), 1, 20);
  network.input.pop_back();
  EXPECT_THROW((void)network.prove(), Error);
  network.input.assign(4 * 10'000, 1);
  try {
    (void)network.prove();
    ADD_FAILURE() << "a proof of too many rows";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  }
  network.layers[0].factors[0] = -1;
  EXPECT_THROW(network.commit(), Error);
  network.layers[0].factors.pop_back();
  EXPECT_THROW(network.commit(), Error);
}

}  // namespace
}  // namespace harmonics::inline in_zk
