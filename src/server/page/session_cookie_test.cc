#include "session_cookie.h"

#include <gtest/gtest.h>

#include <harmonics/base/error.h>

namespace harmonics::inline in_server {
namespace {

constexpr std::chrono::seconds kNow(1'700'000'000);

TEST(SessionCookies, GiveBackTheTokenAndNothingElseDoes) {
  const SessionCookies cookies("the server's own");
  const std::string cookie = cookies.seal("a token", kNow);
  EXPECT_EQ(cookie.find("token"), std::string::npos);
  EXPECT_EQ(cookies.open(cookie, kNow), "a token");
  EXPECT_NE(cookies.seal("a token", kNow), cookie) << "different every time";
  EXPECT_FALSE(SessionCookies("another").open(cookie, kNow));
  EXPECT_EQ(SessionCookies("the server's own").open(cookie, kNow), "a token") << "after a restart";
  for (std::size_t i = 0; i < cookie.size(); ++i) {
    std::string altered = cookie;
    altered[i] = altered[i] == '0' ? '1' : '0';
    EXPECT_FALSE(cookies.open(altered, kNow)) << i;
    EXPECT_FALSE(cookies.open(cookie.substr(0, i), kNow)) << i;
  }
  EXPECT_FALSE(cookies.open(std::string(1 << 20, 'a'), kNow));
  EXPECT_FALSE(cookies.open("no hexadecimal digits", kNow));
}

TEST(SessionCookies, Age) {
  const SessionCookies cookies("secret");
  const std::string cookie = cookies.seal("a token", kNow);
  EXPECT_TRUE(cookies.open(cookie, kNow + kSessionLength - std::chrono::seconds(1)));
  EXPECT_FALSE(cookies.open(cookie, kNow + kSessionLength));
}

TEST(SessionCookies, TheLongestTokenFitsAndALongerOneIsRefused) {
  const SessionCookies cookies("secret");
  const std::string longest(kMaxLoginTokenBytes, 'x');
  EXPECT_EQ(cookies.open(cookies.seal(longest, kNow), kNow), longest);
  EXPECT_THROW(static_cast<void>(cookies.seal(longest + "x", kNow)), Error);
}

TEST(SessionCookies, ActionTokensBelongToTheirCookie) {
  const SessionCookies cookies("secret");
  const std::string one = cookies.seal("a token", kNow);
  const std::string other = cookies.seal("a token", kNow);
  EXPECT_TRUE(cookies.is_action_token(one, cookies.action_token(one)));
  EXPECT_FALSE(cookies.is_action_token(one, cookies.action_token(other)));
  EXPECT_FALSE(cookies.is_action_token(one, ""));
}

TEST(CookieValue, IsFoundByItsWholeName) {
  EXPECT_EQ(cookie_value("a=1; session=x=y; b=2", "session"), "x=y");
  EXPECT_EQ(cookie_value("xsession=1;session=2", "session"), "2");
  EXPECT_EQ(cookie_value("session", "session"), "");
  EXPECT_EQ(cookie_value("", "session"), "");
}

}  // namespace
}  // namespace harmonics::inline in_server
