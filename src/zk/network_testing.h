// Networks with random numbers in them, for tests of the proofs.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <harmonics/base/random.h>
#include <harmonics/custody/breach.h>
#include <harmonics/zk/network.h>

namespace harmonics::inline in_zk {

/// A layer with the secrets of its owner.
struct TestLayer {
  NetworkLayer layer;
  std::vector<std::int8_t> weights;
  std::vector<std::int32_t> factors;
};

inline NetworkLayer dense_layer(std::uint32_t inputs, std::uint32_t outputs, bool relu,
                                std::vector<std::int8_t> constants = {}) {
  return {{LinearShape::Kind::kDense, 1, inputs + static_cast<std::uint32_t>(constants.size()),
           outputs, 1, 1},
          std::move(constants),
          relu,
          false};
}
/// Of pictures of extent[0] x extent[1], with relu.
inline NetworkLayer conv_layer(std::uint32_t inputs, std::uint32_t outputs,
                               std::array<std::uint32_t, 2> extent, bool pool,
                               std::vector<std::int8_t> constants = {}) {
  return {{LinearShape::Kind::kConv3x3, 1, inputs + static_cast<std::uint32_t>(constants.size()),
           outputs, extent[0], extent[1]},
          std::move(constants),
          true,
          pool};
}

/// A network, an input and all seeds.
struct TestNetwork {
  std::vector<TestLayer> layers;
  std::vector<std::int8_t> input;
  BlindingSeed seed = new_blinding_seed();
  BlindingSeed input_seed = new_blinding_seed();
  Bytes commitment;
  Digest context = sha256(bytes_of("context"));
  bool shown = false;

  TestNetwork(const NetworkLayers& of, std::uint32_t batch, std::uint64_t random_seed) {
    Random random(random_seed, "network");
    const auto fill = [&](std::vector<std::int8_t>& out, std::size_t count) {
      for (; count > 0; --count) out.push_back(static_cast<std::int8_t>(random.below(256)));
    };
    for (const NetworkLayer& layer : of) {
      TestLayer& made = layers.emplace_back();
      made.layer = layer;
      fill(made.weights, layer.shape.outputs * layer.shape.weight_columns());
      // Such that some sums are clamped and most are not.
      const std::uint64_t about =
          (std::uint64_t{1} << 31) / 90 / (layer.shape.weight_columns() + 1);
      for (std::uint32_t o = 0; o < layer.shape.outputs && layers.size() < of.size(); ++o) {
        made.factors.push_back(static_cast<std::int32_t>(about / 2 + random.below(3 * about)));
      }
    }
    fill(input, batch * of.front().data_inputs());
    commit();
  }

  [[nodiscard]] NetworkLayers public_layers() const {
    NetworkLayers out;
    for (const TestLayer& layer : layers) out.push_back(layer.layer);
    return out;
  }
  [[nodiscard]] std::vector<LayerParameters> parameters() const {
    std::vector<LayerParameters> out;
    for (const TestLayer& layer : layers) out.push_back({layer.weights, layer.factors});
    return out;
  }
  void commit() { commitment = commit_network(public_layers(), parameters(), seed); }
  [[nodiscard]] Bytes prove() const {
    const std::vector<LayerParameters> secrets = parameters();
    return prove_network({commitment, secrets, seed}, {input, shown, input_seed}, context);
  }
  /// What a verifier says of a proof of this network; nothing when it accepts.
  [[nodiscard]] std::optional<Breach> verdict(ByteSpan proof) const {
    try {
      (void)verify_network_proof(proof, commitment, context);
    } catch (const CustodyError& error) {
      return error.breach();
    }
    return std::nullopt;
  }
};

}  // namespace harmonics::inline in_zk
