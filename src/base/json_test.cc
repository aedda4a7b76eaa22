#include <harmonics/base/json.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include <harmonics/base/error.h>

namespace harmonics::inline in_base {
namespace {

using ::testing::HasSubstr;

std::string refusal(std::string_view text) {
  try {
    (void)Json::parse(text, "input.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  ADD_FAILURE() << "was accepted: " << text;
  return {};
}

TEST(Json, KeepsEveryKindOfValueThroughARoundTrip) {
  const std::string text =
      R"({"none":null,"yes":true,"no":false,"whole":-12,"real":0.1,"text":"a\"b\\c\nd","list":[1,[],{}]})";
  const Json value = Json::parse(text, "text");
  EXPECT_EQ(value.dump(), text);
  EXPECT_TRUE(value.at("none").is_null());
  EXPECT_TRUE(value.at("yes").as_bool());
  EXPECT_EQ(value.at("whole").as_integer(), -12);
  EXPECT_EQ(value.at("real").as_number(), 0.1);
  EXPECT_EQ(value.at("text").as_string(), "a\"b\\c\nd");
  EXPECT_EQ(value.at("list").as_array().size(), 3u);
}

TEST(Json, KeepsTheOrderOfKeys) {
  Json value;
  value.set("z", 1).set("a", 2).set("m", 3).set("z", 4);
  EXPECT_EQ(value.dump(), R"({"z":4,"a":2,"m":3})");
}

TEST(Json, IndentsNestedValues) {
  Json value;
  value.set("list", Json::array().push(1).push(2)).set("empty", Json::object());
  EXPECT_EQ(value.dump(2), "{\n  \"list\": [\n    1,\n    2\n  ],\n  \"empty\": {}\n}");
}

TEST(Json, KeepsDoublesBitForBit) {
  for (const double value : {0.1, 1.0 / 3.0, 1e300, -5e-324, 2.0, 1e21, -0.0}) {
    const Json back = Json::parse(Json(value).dump(), "number");
    EXPECT_FALSE(back.is_integer()) << value;
    EXPECT_EQ(std::signbit(back.as_number()), std::signbit(value));
    EXPECT_EQ(back.as_number(), value);
  }
}

TEST(Json, KeepsTheWholeRangeOfIntegers) {
  for (const std::int64_t value : {std::numeric_limits<std::int64_t>::min(), std::int64_t{0},
                                   std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_EQ(Json::parse(Json(value).dump(), "number").as_integer(), value);
  }
  const Json beyond = Json::parse("9223372036854775808", "number");
  EXPECT_FALSE(beyond.is_integer());
  EXPECT_EQ(beyond.as_number(), 9223372036854775808.0);
}

TEST(Json, WritesNumbersThatJsonCannotSayAsNull) {
  EXPECT_EQ(Json(std::numeric_limits<double>::quiet_NaN()).dump(), "null");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
}

TEST(Json, ReadsEscapesAndSurrogatePairs) {
  EXPECT_EQ(Json::parse(R"("\u0041\t\/\u00e9\u20ac\ud83c\udfb5")", "text").as_string(),
            "A\t/\u00e9\u20ac\U0001F3B5");
  EXPECT_EQ(Json(std::string("\x01")).dump(), "\"\\u0001\"");
}

TEST(Json, RefusesHalfSurrogates) {
  EXPECT_THAT(refusal(R"("\ud83c")"), HasSubstr("surrogate"));
  EXPECT_THAT(refusal(R"("\ud83cx")"), HasSubstr("surrogate"));
  EXPECT_THAT(refusal(R"("\ud83c\u0041")"), HasSubstr("surrogate"));
  EXPECT_THAT(refusal(R"("\udfb5")"), HasSubstr("surrogate"));
}

TEST(Json, NestsToTheLimitAndNoDeeper) {
  const auto nested = [](int levels) {
    return std::string(static_cast<std::size_t>(levels), '[') +
           std::string(static_cast<std::size_t>(levels), ']');
  };
  EXPECT_TRUE(Json::parse(nested(kMaxJsonDepth), "text").is_array());
  EXPECT_THAT(refusal(nested(kMaxJsonDepth + 1)), HasSubstr("nested more than 64 levels"));
  EXPECT_THAT(refusal(std::string(1'000'000, '[')), HasSubstr("nested more than 64 levels"));
}

TEST(Json, RefusesAKeyThatStandsTwice) {
  EXPECT_THAT(refusal(R"({"a":1,"b":2,"a":3})"), HasSubstr("the key 'a' stands twice"));
  EXPECT_THAT(refusal(R"({"x":{"a":1,"\u0061":3}})"), HasSubstr("the key 'a' stands twice"));
}

TEST(Json, RefusesWhatIsNotJsonAndSaysWhere) {
  EXPECT_THAT(refusal(R"({"a":1,})"), HasSubstr("input.json: not valid JSON at byte 7"));
  for (const char* text :
       {"",        " ",         "{",           "[1",       "[1,]", "{\"a\"}", "{\"a\":}", "{a:1}",
        "nul",     "truth",     "01",          "+1",       "1.",   ".5",      "-",        "1e",
        "1e+",     "--1",       "NaN",         "Infinity", "0x10", "1e999",   "\"",       "\"\\",
        "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\n\"",   "1 2",  "[] x"}) {
    EXPECT_THAT(refusal(text), HasSubstr("not valid JSON at byte")) << text;
  }
}

TEST(Json, SaysWhichTypeThereIsWhenAnotherIsWanted) {
  const Json value = Json::parse(R"({"a":"text"})", "text");
  const auto message = [](const auto& use) -> std::string {
    try {
      use();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_THAT(message([&] { (void)value.at("a").as_integer(); }),
              HasSubstr("expected an integer, found a string"));
  EXPECT_THAT(message([&] { (void)value.at("b"); }), HasSubstr("the key 'b' is missing"));
  EXPECT_THAT(message([] { Json(1).set("a", 2); }), HasSubstr("expected an object"));
  EXPECT_THAT(message([] { Json("x").push(2); }), HasSubstr("expected an array"));
  EXPECT_EQ(value.find("b"), nullptr);
  EXPECT_EQ(Json(1).find("b"), nullptr);
}

}  // namespace
}  // namespace harmonics::inline in_base
