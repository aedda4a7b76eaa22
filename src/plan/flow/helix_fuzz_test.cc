// A fixed slice of what the fuzzer does, in every build: thousands of broken files through its
// entry.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/base/random.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_plan {
namespace {

void feed_file(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

// Two nodes and four layers, as Helix writes them.
std::string small_file() {
  std::string text = "\\ Model\nMaximize\n  flow_source_0\nSubject To\n";
  for (int v = 0; v < 2; ++v) {
    text += format(" end_constraint_{}: start_{} + hold_{}_1 + 2 hold_{}_2 <= 4\n", v, v, v, v);
    text += format(
        " node_throughput_constraint_{}: - 9.5 hold_{}_1\n   - 4.25 hold_{}_2 + flow_0_1 <= 0\n", v,
        v, v);
  }
  text += " edge_disable_constr2_0_1: - start_0 + start_1 - hold_0_1 + 4 switch_0_1 <= 4\n";
  for (const char* link : {"source_0", "0_1", "1_0", "1_sink"}) {
    text += format(" edge_flow_constr_{}: flow_{} - 5e+01 switch_{} <= 0\n", link, link, link);
  }
  return text + "Bounds\nBinaries\n hold_0_1\nEnd\n";
}

std::string damaged_file(Random& random) {
  static const std::vector<std::string> words = {
      "-",     "+",      "<=",      "=",  ":",   "1e308", "-1",        "nan", "inf", "99999999999",
      "hold_", "source", "switch_", "\\", "End", "\n",    "_0_0_0_0_", "0",   "To",  "\xC3"};
  const auto pick = [&](std::size_t below) {
    return static_cast<std::size_t>(random.below(below));
  };
  std::string input = small_file();
  for (std::size_t round = 1 + pick(4); round-- > 0;) {
    const std::size_t at = pick(input.size() + 1);
    switch (pick(4)) {
      case 0: input.insert(at, words[pick(words.size())]); break;
      case 1: input.erase(at, pick(12)); break;
      case 2:
        if (at < input.size()) input[at] = static_cast<char>('0' + pick(10));
        break;
      default: input.insert(pick(input.size() + 1), input.substr(at, pick(40)));
    }
  }
  return input;
}

TEST(HelixFuzz, BrokenFilesAreErrors) {
  Random random(1, "helix files");
  for (int k = 0; k < 4'000; ++k) feed_file(damaged_file(random));
}

TEST(HelixFuzz, EveryPrefixIsReadOrAnError) {
  const std::string whole = small_file();
  for (std::size_t size = 0; size <= whole.size(); ++size) feed_file(whole.substr(0, size));
}

}  // namespace
}  // namespace harmonics::inline in_plan
