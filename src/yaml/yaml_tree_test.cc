#include <harmonics/yaml/yaml_tree.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>

namespace harmonics::inline in_yaml {
namespace {

using testing::HasSubstr;

constexpr YamlLimits kSmall{64, 8, 3};

std::string error_of(const std::string& text, const YamlLimits& limits = kSmall) {
  try {
    (void)parse_yaml(text, "f.yml", limits);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(YamlTree, ValuesKnowTheirLineAndTheirPath) {
  const YamlNode root = parse_yaml("a:\n  - 1\n  - x\n", "f.yml", kSmall);
  const YamlValue top(root, "f.yml", "");
  const std::vector<YamlValue> items = top.at("a").entries();
  EXPECT_EQ(items[0].integer(0, 9), 1);
  try {
    (void)items[1].number();
    FAIL() << "a name is no number";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("f.yml:3: a[2]: must be a number"));
  }
}

TEST(YamlTree, EachLimitIsReachedAndNotPassed) {
  EXPECT_EQ(error_of(std::string(64, '#')), "");
  EXPECT_THAT(error_of(std::string(65, '#')), HasSubstr("65 bytes, at most 64"));
  EXPECT_EQ(error_of("[1,2,3,4,5,6,7]"), "");  // and the list itself
  EXPECT_THAT(error_of("[1,2,3,4,5,6,7,8]"), HasSubstr("more than 8 values"));
  EXPECT_EQ(error_of("[[[1]]]"), "");
  EXPECT_THAT(error_of("[[[[1]]]]"), HasSubstr("nested deeper than 3 levels"));
}

TEST(YamlTree, AnAliasCountsAsMuchAsWhatItStandsFor) {
  const YamlNode root = parse_yaml("[&a [1], *a]", "f.yml", {64, 100, 3});
  ASSERT_EQ(root.items.size(), 2u);
  EXPECT_EQ(root.items[1].items[0].text, "1");
  EXPECT_THAT(error_of("[&a [1,2], *a, *a]"), HasSubstr("more than 8 values"));
}

TEST(YamlTree, WhatNoFormatUsesIsRefused) {
  EXPECT_THAT(error_of("a: 1\na: 2\n"), HasSubstr("f.yml:2: the key 'a' is there twice"));
  EXPECT_THAT(error_of("a: !b 1\n"), HasSubstr("tags"));
  EXPECT_THAT(error_of("a\n---\nb\n"), HasSubstr("a second document"));
  EXPECT_THAT(error_of("a: [1\n"), HasSubstr("not in order as YAML"));
}

}  // namespace
}  // namespace harmonics::inline in_yaml
