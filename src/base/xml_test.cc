#include <harmonics/base/xml.h>

#include <gtest/gtest.h>

namespace harmonics::inline in_base {
namespace {

TEST(XmlText, EscapesMarkup) {
  EXPECT_EQ(xml_text(""), "");
  EXPECT_EQ(xml_text("a<b>&\"c\" 'd'"), "a&lt;b&gt;&amp;&quot;c&quot; 'd'");
  EXPECT_EQ(xml_text("größe 中 \U0001F600"), "größe 中 \U0001F600");
}

TEST(XmlText, ReplacesWhatXmlCannotHold) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(xml_text(std::string_view("a\0b", 3)), "a" + bad + "b");
  EXPECT_EQ(xml_text("a\x1B\x7F"), "a" + bad + bad);
  EXPECT_EQ(xml_text("\xFFz"), bad + "z");
  EXPECT_EQ(xml_text("\xC3"), bad) << "cut off";
  EXPECT_EQ(xml_text("\xC0\xBC"), bad + bad) << "an overlong '<'";
  EXPECT_EQ(xml_text("\xED\xA0\x80"), bad + bad + bad) << "half of a pair of UTF-16";
  EXPECT_EQ(xml_text("\xF4\x90\x80\x80"), bad + bad + bad + bad) << "past the last character";
}

}  // namespace
}  // namespace harmonics::inline in_base
