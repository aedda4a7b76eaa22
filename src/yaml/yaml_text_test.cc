#include <harmonics/yaml/yaml_text.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include <harmonics/base/format.h>
#include <harmonics/yaml/yaml_tree.h>

namespace harmonics::inline in_yaml {
namespace {

constexpr YamlLimits kWide{std::size_t{1} << 20, 10'000, 12};

TEST(YamlText, ANameReadsBackAsItself) {
  for (const std::string name : {"plain", "two words", "yes", "12", "a: b", "#not a comment", "- x",
                                 "\"quoted\"", "tab\there", "null", "~", ""}) {
    const YamlNode root = parse_yaml("key: " + yaml_name(name) + "\n", "f", kWide);
    ASSERT_EQ(root.items.size(), 1u) << name;
    EXPECT_EQ(root.items[0].kind, YamlNode::Kind::kScalar) << name;
    EXPECT_EQ(root.items[0].text, name);
  }
}

TEST(YamlText, AFlowListBreaksItsLinesAndReadsBack) {
  YamlFlowList list("values: ", 2);
  for (int k = 0; k < 100; ++k) list.add(format("{}", 1000 + k));
  const std::string text = list.finish();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_GT(std::ranges::count(text, '\n'), 3);
  const YamlNode root = parse_yaml(text, "f", kWide);
  ASSERT_EQ(root.items.size(), 1u);
  EXPECT_EQ(YamlValue(root.items[0], "f", "values").integers(0, 2000).back(), 1099);
}

}  // namespace
}  // namespace harmonics::inline in_yaml
