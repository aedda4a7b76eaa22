// A fixed slice of what the fuzzer does, in every build: thousands of broken texts through its
// entry.
#include <gtest/gtest.h>

#include <harmonics/graph/harp.h>
#include <harmonics/graph/zoo.h>

#include "fuzz_mutation_testing.h"
#include "random_graph_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_graph {
namespace {

constexpr std::string_view kEverything = R"(harmonic g {
  axis T = 3 <= 9; producer t {T, 2*T-1, T+4} int64;
  producer x {1, 8 8} uint8 1/1 y; producer y; # comment
  layer a linear(4, bias=false); layer b 1/2 a;
  group "q \" r" { repeat 3 as i { layer c$i conv2d(out=$(i*2), kernel={3, 3}); } }
  consumer out {4} gradients 2;
  cycle {
    x -(relu)-> a -> b | -> c1;
    repeat 2 as i { c$i -> c$(i+1); }
    a, b -> out;
    a <-(mse * 0.5)- y;
  }
}
data { x = "csv:x.csv"; split = 0.2; }
train { lr = 1e-3; optimizer = adam; }
)";

TEST(HarpFuzz, BrokenTextsAreErrors) {
  std::vector<std::string> seeds = {std::string(kEverything),
                                    to_harp(zoo_graph("transformer-small"))};
  for (std::uint64_t seed = 0; seed < 4; ++seed) seeds.push_back(to_harp(random_graph(seed)));
  seeds.push_back(to_harp(random_graph(4, {.axes = true})));
  seeds.emplace_back(
      "producer i {4} int64; layer e embedding(9, 4, trainable=false); layer h linear(9, "
      "bias=false, tie=e.weight); cycle { i -> e -> h; }");
  FuzzMutation mutation(1, seeds,
                        {"repeat 9 as i {",
                         "}",
                         "{",
                         "$i",
                         "axis T <= 5;",
                         "{T+1}",
                         "2*T",
                         "tie=",
                         "@1\"",
                         "$(i-1)",
                         "cycle {",
                         "->",
                         "-(relu)->",
                         "<-(mse)-",
                         "|",
                         ";",
                         ",",
                         "\"",
                         "//",
                         "@1",
                         "99999999999",
                         "layer ",
                         "group g {",
                         "1/2 x",
                         "consumer ",
                         "\xC3",
                         "-",
                         "(",
                         ")",
                         "e9"});
  for (int i = 0; i < 20'000; ++i) {
    const std::string input = mutation.next();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

TEST(HarpFuzz, EveryPrefixOfATextIsAnErrorOrAGraph) {
  for (std::size_t size = 0; size <= kEverything.size(); ++size) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(kEverything.data()), size);
  }
}

}  // namespace
}  // namespace harmonics::inline in_graph
