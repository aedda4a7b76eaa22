// A fixed slice of what the fuzzer does, in every build.
#include <gtest/gtest.h>

#include "zk_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_zk {
namespace {

TEST(ZkFuzz, DamagedProofsAndWeightsAreErrors) {
  Random random(6, "zk fuzz");
  for (const LinearShape& shape : {dense_shape(2, 3, 2), conv_shape(1, 1, 2, 2, 2)}) {
    const TestStage stage(shape, 1);
    Bytes seed = {std::byte{0}};
    const Bytes proof = stage.prove();
    seed.insert(seed.end(), proof.begin(), proof.end());
    seed.insert(seed.end(), stage.committed_weights.begin(), stage.committed_weights.end());
    // The split that falls between the two, or near it.
    seed[0] = static_cast<std::byte>((255 * proof.size() + seed.size() - 2) / (seed.size() - 1));
    for (int i = 0; i < 1500; ++i) {
      Bytes bytes = seed;
      for (std::uint64_t n = 1 + random.below(3); n-- > 0 && !bytes.empty();) {
        const std::size_t at = random.below(bytes.size());
        if (random.below(8) == 0) {
          bytes.resize(at);
        } else {
          // Extents are the interesting part.
          bytes[random.below(2) == 0 ? at : at % 24] = static_cast<std::byte>(random.below(256));
        }
      }
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_zk
