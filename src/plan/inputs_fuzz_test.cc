// A fixed slice of what the fuzzer does, in every build: thousands of broken files through its
// entry.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/random.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_plan {
namespace {

void feed(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

// One text per format; the first byte picks it.
constexpr std::string_view kModels =
    "m:\n  layers: 3\n  mem_MB: [1, 2.5, 3]\n  parameters_in: 10\n  parameters_out: [4, 5]\n"
    "DummyModel:\n  layers: 0\n  mem_MB: []\n  parameters_in: 0\n  parameters_out: []\n";
constexpr std::string_view kDeviceTypes =
    "t:\n  bw_Mbps: 1000\n  mem_MB: 2048\n  model_profiles:\n    m:\n    - batch_size: 8\n"
    "      dtype: torch.float32\n      time_s: [0.1, 0.2, 3e-1]\nu:\n  bw_Mbps: 0\n  mem_MB: 0\n"
    "  model_profiles:\n";
constexpr std::string_view kHosts = "t: []\nu:\n- a\n- \"b c\"\n";
constexpr std::string_view kLinks =
    "groups:\n  lab: [a, b]\nlinks:\n- between: [lab, u]\n  bw_Mbps: 10\n";
constexpr std::string_view kDeployment =
    "backend: auto\nstrict: true\npartitions:\n- {backend: gpu, device: 1, weight: 1.5}\n"
    "- backend: fpga\n  mem_MB: 64\n";
constexpr std::string_view kPlan = "- a: [1, 6]\n- b: [7, 9]\n- c: [7, 9]\n";

const std::vector<std::string>& seeds() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> texts;
    for (const std::string_view text :
         {kModels, kDeviceTypes, kHosts, kLinks, kDeployment, kPlan}) {
      texts.push_back(static_cast<char>(texts.size()) + std::string(text));
    }
    return texts;
  }();
  return all;
}

const std::vector<std::string>& words() {
  static const std::vector<std::string> all = {
      "[",    "]",        "{",       "}",           ": ",
      "- ",   ", ",       "\n",      "\n  ",        "&a ",
      "*a",   "!t ",      "? ",      "|\n",         ">\n",
      "#",    "---\n",    "...\n",   "null",        "~",
      "nan",  ".inf",     "-1",      "1e308",       "99999999999999999999",
      "\"",   "'",        "\\",      "%YAML 1.2\n", "\t",
      "\xC3", "layers: ", "mem_MB: "};
  return all;
}

std::string damaged(Random& random) {
  const auto pick = [&](std::size_t below) {
    return static_cast<std::size_t>(random.below(below));
  };
  std::string input = seeds()[pick(seeds().size())];
  for (std::size_t round = 1 + pick(5); round-- > 0;) {
    const std::size_t at = pick(input.size() + 1);
    switch (pick(5)) {
      case 0: input.insert(at, words()[pick(words().size())]); break;
      case 1: input.erase(at, pick(8)); break;
      case 2:
        if (at < input.size()) input[at] = static_cast<char>(pick(256));
        break;
      case 3: input.resize(at); break;
      default: input.insert(pick(input.size() + 1), input.substr(at, pick(24)));
    }
  }
  return input;
}

TEST(InputsFuzz, BrokenFilesAreErrors) {
  Random random(1, "planner files");
  for (int k = 0; k < 20'000; ++k) feed(damaged(random));
}

TEST(InputsFuzz, EveryPrefixIsReadOrAnError) {
  for (const std::string& seed : seeds()) {
    for (std::size_t size = 0; size <= seed.size(); ++size) feed(seed.substr(0, size));
  }
}

}  // namespace
}  // namespace harmonics::inline in_plan
