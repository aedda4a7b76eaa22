// A fixed slice of what the fuzzer does, in every build: thousands of broken packed tensors through
// its entry.
#include <gtest/gtest.h>

#include <vector>

#include <harmonics/base/random.h>
#include <harmonics/transport/packing.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_transport {
namespace {

using Input = std::vector<std::uint8_t>;

std::vector<Input> seeds() {
  std::vector<Input> out;
  Tensor tensor = Tensor::zeros({2, 3, 11});
  for (std::size_t i = 0; i < 66; ++i) {
    tensor.mutable_values<float>()[i] = static_cast<float>(i) - 30.5F;
  }
  for (const int bits : {16, 8, 4}) {
    for (const Tensor& one :
         {tensor, Tensor::zeros({4, 9}, DType::kFloat16), Tensor::zeros({2, 64, 33})}) {
      const Tensor packed = pack_tensor(one, bits);
      if (packed.dtype() != DType::kUInt8) continue;
      const auto bytes = packed.values<std::uint8_t>();
      out.emplace_back(bytes.begin(), bytes.end());
    }
  }
  return out;
}

TEST(PackingFuzz, BrokenTensorsAreErrors) {
  const std::vector<Input> from = seeds();
  Random random(6, "packing fuzz");
  for (int i = 0; i < 60'000; ++i) {
    Input input = from[random.below(from.size())];
    for (std::uint64_t rounds = random.below(4); rounds > 0; --rounds) {
      const std::size_t at = random.below(input.size());
      switch (random.below(4)) {
        case 0: input[at] ^= static_cast<std::uint8_t>(1 << random.below(8)); break;
        case 1: input[at] = static_cast<std::uint8_t>(random.below(256)); break;
        case 2: input.resize(at + 1); break;
        default: input.insert(input.end(), random.below(16), 0xff);
      }
    }
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_transport
