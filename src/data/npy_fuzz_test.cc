// A fixed slice of what the fuzzer of NumPy files does, in every build.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include <harmonics/base/format.h>
#include <harmonics/base/random.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_data {
namespace {

TEST(NpyFuzz, MutationsOfSmallFiles) {
  constexpr const char* kKinds[] = {"f4", "f8", "i8", "i4", "i2", "i1", "u4", "u2", "u1", "b1"};
  constexpr std::size_t kBytes[] = {4, 8, 8, 4, 2, 1, 4, 2, 1, 1};
  Random random(1, "npy fuzz");
  for (int i = 0; i < 20000; ++i) {
    const auto kind = static_cast<std::size_t>(random.below(std::size(kKinds)));
    const auto rows = static_cast<std::size_t>(random.below(4));
    const auto columns = static_cast<std::size_t>(random.below(4));
    const std::string header = format(
        "{{'descr': '{}{}', 'fortran_order': {}, 'shape': ({}, {}), }}\n", "<>|"[random.below(3)],
        kKinds[kind], random.below(8) == 0 ? "True" : "False", rows, columns);
    const bool first = random.below(2) == 0;
    std::string input(1, static_cast<char>(random.below(256)));
    input += std::string("\x93NUMPY") + (first ? '\1' : '\2') + '\0';
    input += static_cast<char>(header.size());
    input += std::string(first ? 1 : 3, '\0') + header;
    for (std::size_t n = rows * columns * kBytes[kind]; n > 0; --n) {
      input += static_cast<char>(random.below(256));
    }
    if (random.below(2) == 0) {
      input[random.below(input.size())] = static_cast<char>(random.below(256));
    }
    if (random.below(6) == 0) input.resize(random.below(input.size() + 1));
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_data
