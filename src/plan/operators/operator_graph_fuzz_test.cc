// A fixed slice of what the fuzzer does, in every build: thousands of broken graphs through its
// entry.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/base/random.h>

#include "operator_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_plan {
namespace {

void feed(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

const std::vector<std::string>& seeds() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> texts;
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      Random random(seed, "operator seeds");
      texts.push_back(operator_graph_to_json(random_operators(
          random, {.classes = true, .backward = seed > 3, .cannot_run = true, .free_device = true},
          5)));
    }
    texts.push_back(
        R"({"maxSizePerFPGA": 9e9, "maxFPGAs": 2, "maxCPUs": 1, "nodes": [{"id": 1,
"supportedOnFpga": 1, "cpuLatency": 3, "fpgaLatency": 1, "isBackwardNode": 0, "colorClass": 3},
{"id": 2, "supportedOnFpga": 0, "cpuLatency": 2, "fpgaLatency": 0, "isBackwardNode": true}],
"edges": [{"sourceId": 1, "destId": 2, "cost": 0.5}]})");
    return texts;
  }();
  return all;
}

std::string damaged(Random& random) {
  static const std::vector<std::string> words = {"[",
                                                 "]",
                                                 "{",
                                                 "}",
                                                 ":",
                                                 ",",
                                                 "\"",
                                                 "null",
                                                 "true",
                                                 "-1",
                                                 "1e308",
                                                 "99999999999999999999",
                                                 "0",
                                                 "\"to\"",
                                                 "\"time_s\"",
                                                 "\"n1\"",
                                                 "\"maxFPGAs\": 1,",
                                                 "\\u0000",
                                                 "\xC3"};
  const auto pick = [&](std::size_t below) {
    return static_cast<std::size_t>(random.below(below));
  };
  std::string input = seeds()[pick(seeds().size())];
  for (std::size_t round = 1 + pick(4); round-- > 0;) {
    const std::size_t at = pick(input.size() + 1);
    switch (pick(5)) {
      case 0: input.insert(at, words[pick(words.size())]); break;
      case 1: input.erase(at, pick(8)); break;
      case 2:
        if (at < input.size()) input[at] = static_cast<char>('0' + pick(10));
        break;
      case 3:
        if (at < input.size()) input[at] = static_cast<char>(pick(256));
        break;
      default: input.insert(pick(input.size() + 1), input.substr(at, pick(24)));
    }
  }
  return input;
}

TEST(OperatorGraphFuzz, BrokenFilesAreErrors) {
  Random random(1, "operator files");
  for (int k = 0; k < 10'000; ++k) feed(damaged(random));
}

TEST(OperatorGraphFuzz, EveryPrefixIsReadOrAnError) {
  for (const std::string& seed : seeds()) {
    for (std::size_t size = 0; size <= seed.size(); ++size) feed(seed.substr(0, size));
  }
}

}  // namespace
}  // namespace harmonics::inline in_plan
