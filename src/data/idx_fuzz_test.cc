// A fixed slice of what the IDX fuzzer does, in every build.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include <harmonics/base/random.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_data {
namespace {

TEST(IdxFuzz, MutationsOfSmallFiles) {
  constexpr char kTypes[] = {0x08, 0x09, 0x0B, 0x0C, 0x0D, 0x0E, 0x0A};
  constexpr std::size_t kBytes[] = {1, 1, 2, 4, 4, 8, 1};
  Random random(1, "idx fuzz");
  for (int i = 0; i < 20000; ++i) {
    const auto type = static_cast<std::size_t>(random.below(7));
    std::string input(1, static_cast<char>(random.below(256)));
    input += std::string("\0\0", 2) + kTypes[type];
    const auto axes = random.below(4);
    input += static_cast<char>(axes);
    std::size_t elements = 1;
    for (std::uint64_t axis = 0; axis < axes; ++axis) {
      const auto length = static_cast<std::size_t>(random.below(4));
      input += std::string("\0\0\0", 3) + static_cast<char>(length);
      elements *= length;
    }
    for (std::size_t n = elements * kBytes[type]; n > 0; --n) {
      input += static_cast<char>(random.below(256));
    }
    if (random.below(3) == 0)
      input[random.below(input.size())] = static_cast<char>(random.below(256));
    if (random.below(5) == 0) input.resize(random.below(input.size() + 1));
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_data
