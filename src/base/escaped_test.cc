#include <harmonics/base/escaped.h>

#include <algorithm>

#include <gtest/gtest.h>

#include <harmonics/base/json.h>
#include <harmonics/base/random.h>

namespace harmonics::inline in_base {
namespace {

TEST(Escaped, LeavesTextAlone) {
  EXPECT_EQ(escaped(""), "");
  EXPECT_EQ(escaped("größe 中 \U0001F600 a\\b 'c' \"d\""), "größe 中 \U0001F600 a\\b 'c' \"d\"");
}

TEST(Escaped, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(escaped("x\x1b]0;pwned\x07"), "x\\x1b]0;pwned\\x07");
  EXPECT_EQ(escaped("x\ny fake root succeeded"), "x\\ny fake root succeeded");
  EXPECT_EQ(escaped("a\tb\rc\bd\x7f"), "a\\tb\\rc\\x08d\\x7f");
  EXPECT_EQ(escaped(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(escaped("\xC2\x9B"
                    "2J"),
            "\\x9b2J")
      << "the control sequence introducer of eight bits, in UTF-8";
  EXPECT_EQ(escaped("\x9b"
                    "2J"),
            "\\x9b2J")
      << "and as a bare byte";
}

TEST(Escaped, ShowsWhatTurnsOrBreaksALine) {
  EXPECT_EQ(escaped("a\u202Eb\u2066c\u200Fd\u2028e"), "a\\u202eb\\u2066c\\u200fd\\u2028e");
}

TEST(Escaped, KeepsLinesWhereTheyAreMeant) {
  EXPECT_EQ(escaped_lines("one\n\ttwo\r\x1b[2J\n"), "one\n\ttwo\\r\\x1b[2J\n");
}

TEST(Escaped, JsonSaysTheSame) {
  const Json json = Json().set("a\u202E", "x\u009b\x7f\x1b\n\u2028 größe");
  const std::string shown = escaped_json(json.dump());
  EXPECT_EQ(shown, R"({"a\u202e":"x\u009b\u007f\u001b\n\u2028 größe"})");
  EXPECT_EQ(Json::parse(shown, "shown").dump(), json.dump());
  EXPECT_EQ(escaped_json("\"\xff\""), "\"\\ufffd\"");
}

TEST(Escaped, AnyBytesBecomeOneHarmlessLine) {
  Random random(7, "escaped");
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random.below(40), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.below(256));
    const std::string shown = escaped(bytes);
    EXPECT_TRUE(std::ranges::none_of(
        shown, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }));
    EXPECT_EQ(escaped(shown), shown) << "nothing is left to escape";
  }
}

}  // namespace
}  // namespace harmonics::inline in_base
