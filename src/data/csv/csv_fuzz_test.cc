// A fixed slice of what the fuzzer does, in every build: a small corpus and thousands of mutations
// of it through the fuzzer's entry, which aborts when the reader and its twin disagree.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/base/random.h>

#include "csv_twin_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_data {
namespace {

const std::vector<std::string> kCorpus = {
    "1,2,3\n4,5,6\n",
    "1,2\r\n3,4\r\n\r\n",
    "-0.5;+2e3\n.5;6.\n",
    "\"1\",\" 2 \"\n\"3\n\",4\n",
    "\"a\"\"b\",1\n",
    "1,\"a\"\"b\nc\"\n2,\"\"\n3, x \n",
    "a,b\n1,2\n3,4\n",
    "nan,inf\n-inf,NaN\n",
    "1e400,1e-400\n0.1,123456789012345678901234567890\n",
    "16777217,0.3000000119\n9007199254740993,5e-324\n",
    "\xEF\xBB\xBF"
    "1 \n 2\n",
    "1\t2\n3\t4",
    "256,-1\n9223372036854775807,9223372036854775808\n",
    " \n\n1\n\n",
    "\"",
    "1,\n",
    "1\"2\n",
};

const std::vector<std::string> kWords = {",",
                                         ";",
                                         "\n",
                                         "\r\n",
                                         "\"",
                                         "\"\"",
                                         " ",
                                         "\t",
                                         "\r",
                                         ".",
                                         "-",
                                         "+",
                                         "e",
                                         "1e5",
                                         "0.1",
                                         "99999999",
                                         "nan",
                                         "inf",
                                         "\n\n",
                                         "1,2\n",
                                         "\"1\"",
                                         "a",
                                         "4503599627370497.5",
                                         std::string("\0", 1)};

void run(char choice, const std::string& text) {
  const std::string input = choice + text;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

void mutate(std::string& text, Random& random) {
  const auto place = static_cast<std::size_t>(random.below(text.size() + 1));
  switch (random.below(4)) {
    case 0: text.insert(place, kWords[random.below(kWords.size())]); break;
    case 1: text.erase(place, random.below(4)); break;
    case 2:
      if (place < text.size()) text[place] = static_cast<char>(random.below(256));
      break;
    default: text.insert(place, kCorpus[random.below(kCorpus.size())]);
  }
}

TEST(CsvFuzz, TheCorpusUnderAllOptions) {
  for (const std::string& text : kCorpus) {
    for (int choice = 0; choice < 256; ++choice) run(static_cast<char>(choice), text);
  }
}

TEST(CsvFuzz, MutationsOfTheCorpus) {
  Random random(1, "csv fuzz");
  for (int i = 0; i < 20000; ++i) {
    std::string text = kCorpus[random.below(kCorpus.size())];
    for (std::uint64_t n = random.below(6); n > 0; --n) mutate(text, random);
    // Half of them go through the comparison with the twin.
    run(static_cast<char>(random.below(2) == 0 ? random.below(2) + 8 * random.below(32)
                                               : random.below(256)),
        text);
  }
}

// The twin itself, on what everybody agrees about.
TEST(CsvTwin, Reads) {
  const auto rows = CsvTwin(
                        "\xEF\xBB\xBF"
                        "1, \"a \"\"b\"\"\n\" \r\n\n2,3",
                        ',')
                        .rows();
  ASSERT_TRUE(rows);
  EXPECT_EQ(*rows, (std::vector<TwinRow>{{"1", "a \"b\"\n"}, {"2", "3"}}));
  EXPECT_FALSE(CsvTwin("\"1\n", ',').rows());
  EXPECT_FALSE(CsvTwin("1\"\n", ',').rows());
  EXPECT_EQ(CsvTwin::value<double>(" -1.5 "), -1.5);
  EXPECT_FALSE(CsvTwin::value<double>("0x1"));
  EXPECT_FALSE(CsvTwin::value<float>("1e39"));
}

}  // namespace
}  // namespace harmonics::inline in_data
