// A short, seeded run of the fuzzer of safetensors, with every build.
#include <gtest/gtest.h>

#include <harmonics/base/file.h>
#include <harmonics/runtime/safetensors.h>

#include <fuzz_mutation_testing.h>
#include <temporary_folder_testing.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_runtime {
namespace {

TEST(SafetensorsFuzz, DamagedFilesNeverCrash) {
  TemporaryFolder folder;
  Safetensors content;
  content.tensors.emplace("a", Tensor::zeros({2, 3}, DType::kFloat32));
  content.tensors.emplace("b", Tensor::zeros({4}, DType::kInt64));
  content.metadata["step"] = "7";
  const auto path = folder.path() / "x.safetensors";
  std::vector<std::string> seeds;
  for (const bool checksum : {false, true}) {
    write_safetensors(path, content, checksum);
    seeds.push_back(read_text_file(path, 1 << 20));
  }
  FuzzMutation mutation(1, seeds,
                        {"\"shape\":[", "9223372036854775807", "\"data_offsets\":[", "F32", "]"});
  for (int round = 0; round < 3000; ++round) {
    const std::string input = mutation.next();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_runtime
