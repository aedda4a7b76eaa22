// A short, seeded run of the fuzzer of GGUF, with every build.
#include <gtest/gtest.h>

#include <fuzz_mutation_testing.h>

#include "gguf_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_models {
namespace {

TEST(GgufFuzz, DamagedFilesNeverCrash) {
  GgufWriter file;
  file.text("general.architecture", "llama").number("general.alignment", 4, std::uint32_t{32});
  file.number("llama.eps", 6, 1e-5F).list("tokens", 3, 3);
  file.tensor("a", {4, 2}, 0, std::string(32, '\1')).tensor("b", {32, 2}, 3, std::string(40, '\2'));
  file.tensor("c", {32}, 8, std::string(34, '\3')).tensor("d", {256}, 14, std::string(210, '\4'));
  FuzzMutation mutation(1, {file.bytes()},
                        {std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8), std::string(8, '\xff'),
                         std::string("\x09\0\0\0", 4), "GGUF"});
  for (int round = 0; round < 5000; ++round) {
    const std::string input = mutation.next();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_models
