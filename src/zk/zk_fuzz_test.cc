// A fixed slice of what the fuzzer does, in every build.
#include <gtest/gtest.h>

#include "network_testing.h"
#include "zk_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_zk {
namespace {

// A byte that says where the proof ends, the proof, and what was committed to.
Bytes input_of(const Bytes& proof, const Bytes& committed) {
  Bytes input = {std::byte{0}};
  input.insert(input.end(), proof.begin(), proof.end());
  input.insert(input.end(), committed.begin(), committed.end());
  // The split that falls between the two, or near it.
  input[0] = static_cast<std::byte>((255 * proof.size() + input.size() - 2) / (input.size() - 1));
  return input;
}

void feed_damaged(const Bytes& input, std::size_t header, std::size_t second, int count,
                  Random& random) {
  for (int i = 0; i < count; ++i) {
    Bytes bytes = input;
    for (std::uint64_t n = 1 + random.below(3); n-- > 0 && !bytes.empty();) {
      const std::size_t at = random.below(bytes.size());
      // Extents are the interesting part.
      switch (random.below(8)) {
        case 0: bytes.resize(at); break;
        case 1:
        case 2:
          bytes[std::min(second + at % header, bytes.size() - 1)] =
              static_cast<std::byte>(random.below(256));
          break;
        case 3:
        case 4:
          bytes[at % std::min(header, bytes.size())] = static_cast<std::byte>(random.below(256));
          break;
        default: bytes[at] = static_cast<std::byte>(random.below(256));
      }
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
}

TEST(ZkFuzz, DamagedProofsAndWeightsAreErrors) {
  Random random(6, "zk fuzz");
  for (const LinearShape& shape : {dense_shape(2, 3, 2), conv_shape(1, 1, 2, 2, 2)}) {
    const TestStage stage(shape, 1);
    const Bytes proof = stage.prove();
    feed_damaged(input_of(proof, stage.committed_weights), 24, 1 + proof.size(), 1500, random);
  }
}

TEST(ZkFuzz, DamagedProofsOfNetworksAreErrors) {
  Random random(7, "zk fuzz");
  for (const NetworkLayers& layers :
       {NetworkLayers{dense_layer(2, 2, true, {1}), dense_layer(2, 1, false)},
        NetworkLayers{conv_layer(1, 1, {2, 2}, true), dense_layer(1, 1, false)}}) {
    const TestNetwork network(layers, 1, 1);
    const Bytes proof = network.prove();
    feed_damaged(input_of(proof, network.commitment), 48, 1 + proof.size(), 400, random);
    // Whole, with a commitment of which one byte is another: what the sizes come from.
    for (std::size_t at = 0; at < 60 && at < network.commitment.size(); ++at) {
      for (const int change : {1, 128}) {
        Bytes changed = network.commitment;
        changed[at] ^= static_cast<std::byte>(change);
        EXPECT_THROW((void)verify_network_proof(proof, changed, network.context), Error) << at;
      }
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_zk
