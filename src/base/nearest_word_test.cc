#include <harmonics/base/nearest_word.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace harmonics::inline in_base {
namespace {

TEST(NearestWord, IsTheOneWithTheFewestEdits) {
  const std::vector<std::string> words = {"train", "trace", "graph"};
  for (const char* typed : {"trian", "rain", "trayn", "trainn"}) {
    EXPECT_EQ(nearest_word(typed, words), "train") << typed;
  }
  EXPECT_EQ(nearest_word("trac", words), "trace");
  EXPECT_EQ(nearest_word("traie", words), "train") << "of two the earlier";
}

TEST(NearestWord, IsTheLongFormOfWhatWasGiven) {
  const std::vector<std::string> words = {"cpus", "required_gpus", "gang"};
  EXPECT_EQ(nearest_word("gpus", words), "required_gpus");
  const std::vector<std::string> flags = {"--gpu-model", "--gpus"};
  EXPECT_EQ(nearest_word("--gpu", flags), "--gpus") << "not the longer one";
  EXPECT_EQ(nearest_word("cpu", words), "cpus");
  EXPECT_EQ(nearest_word("us", {{"of_us"}}), "") << "too short to be meant";
  EXPECT_EQ(nearest_word("--model", {{"--goal", "--models-file", "--model-name"}}), "--model-name");
}

TEST(NearestWord, IsNoneWhenTooMuchDiffers) {
  const std::vector<std::string> words = {"train", "--processes"};
  EXPECT_EQ(nearest_word("polish", words), "");
  EXPECT_EQ(nearest_word("--proceses", words), "--processes");
  EXPECT_EQ(nearest_word("--frobnicate", words), "");
  EXPECT_EQ(nearest_word("", std::vector<std::string>{}), "");
}

TEST(NearestWord, LooksAtWordsUpToItsCeiling) {
  const std::string longest(kLongestNearWord, 'x');
  const std::vector<std::string> words = {longest};
  EXPECT_EQ(nearest_word(longest.substr(1), words), longest);
  EXPECT_EQ(nearest_word(longest + "x", words), "");
}

}  // namespace
}  // namespace harmonics::inline in_base
