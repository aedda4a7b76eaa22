// A short, seeded run of the fuzzer of indices and maps, with every build.
#include <gtest/gtest.h>

#include <fuzz_mutation_testing.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_models {
namespace {

TEST(WeightIndexFuzz, DamagedTextsNeverCrash) {
  FuzzMutation mutation(
      1,
      {R"({"metadata":{"total_size":8},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})",
       R"({"format":"harmonics.weights/1","model":{"config":{}},"tensors":{"a":{"file":"x","offset":8,)"
       R"("dtype":"float32","shape":[2,3],"kind":"transposed","stored":[3,2],"name":"b"},)"
       R"("c":{"file":"y","offset":0,"dtype":"float32","shape":[4,32],"kind":"q4_1","paired_heads":2}}})"},
      {"9223372036854775807", "-1", "[", "\"kind\":\"q6_k\"", "../", "{\"a\":"});
  for (int round = 0; round < 5000; ++round) {
    const std::string input = mutation.next();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_models
