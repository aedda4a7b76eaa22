// A fixed slice of what the fuzzer does, in every build: thousands of broken blobs through its
// entry.
#include <gtest/gtest.h>

#include <harmonics/graph/blob.h>
#include <harmonics/graph/zoo.h>

#include "fuzz_mutation_testing.h"
#include "random_graph_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_graph {
namespace {

std::string blob_text(const HarmonicGraph& graph) {
  const Bytes bytes = encode_graph(graph);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(BlobFuzz, BrokenBlobsAreErrors) {
  std::vector<std::string> seeds = {blob_text(zoo_graph("lenet")),
                                    blob_text(zoo_graph("resnet18"))};
  for (std::uint64_t seed = 0; seed < 8; ++seed) seeds.push_back(blob_text(random_graph(seed)));
  for (std::uint64_t seed = 8; seed < 10; ++seed) {
    seeds.push_back(blob_text(random_graph(seed, {.axes = true})));
  }
  FuzzMutation mutation(2, seeds,
                        {std::string(4, '\xFF'), std::string(8, '\0'), std::string("\x01\0\0\0", 4),
                         std::string(7, '\0') + '\x80', "linear", "add", "relu", "T", "tie"});
  for (int i = 0; i < 40'000; ++i) {
    const std::string input = mutation.next();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_graph
