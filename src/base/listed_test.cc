#include <harmonics/base/listed.h>

#include <gtest/gtest.h>

#include <map>
#include <ranges>
#include <vector>

namespace harmonics::inline in_base {
namespace {

const std::vector<std::string> kWords = {"relu", "sigmoid", "tanh"};

TEST(Listed, HasCommasBetweenAndSaysNone) {
  EXPECT_EQ(listed(kWords), "relu, sigmoid, tanh");
  EXPECT_EQ(listed(std::vector<std::string>{"relu"}), "relu");
  EXPECT_EQ(listed(std::vector<std::string>{}), "none");
}

TEST(Listed, ItemsAreSpelledByAFunctionOrAMember) {
  EXPECT_EQ(listed(std::vector{1, 2}, [](int n) { return std::to_string(10 * n); }), "10, 20");
  const std::map<std::string, int> table = {{"b", 2}, {"a", 1}};
  EXPECT_EQ(listed(table, &std::pair<const std::string, int>::first), "a, b");
  EXPECT_EQ(listed(std::views::keys(table)), "a, b");
}

TEST(Joined, HasWhatIsAskedForBetweenAndIsEmptyForNone) {
  EXPECT_EQ(joined(kWords, " "), "relu sigmoid tanh");
  EXPECT_EQ(joined(kWords), listed(kWords));
  EXPECT_EQ(joined(std::vector<std::string>{}, "; "), "");
  EXPECT_EQ(joined(std::vector{3, 4}, "x", [](int n) { return std::to_string(n); }), "3x4");
}

TEST(AddItem, ListsGrowItemByItem) {
  std::string list;
  for (const std::string& word : kWords) add_item(list, word, "; ");
  EXPECT_EQ(list, "relu; sigmoid; tanh");
}

}  // namespace
}  // namespace harmonics::inline in_base
