// Addresses, and who has to show what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/serve/listen_address.h>

#include "error_testing.h"
#include "listening.h"

namespace harmonics::inline in_serve {
namespace {

using ::testing::HasSubstr;

TEST(ListenAddress, ReadsWhatItWrites) {
  for (const char* text : {"localhost:8000", "127.0.0.1:0", "[::1]:65535", "0.0.0.0:1"}) {
    EXPECT_EQ(listen_address_text(parse_listen_address(text)), text);
  }
  for (const char* text : {"", "8000", ":8000", "localhost", "localhost:", "localhost:65536",
                           "::1:80", "localhost:8x"}) {
    EXPECT_THAT(error_of([&] { static_cast<void>(parse_listen_address(text)); }),
                HasSubstr("is no address to listen on"))
        << text;
  }
}

TEST(ListenAddress, OnlyLoopbackIsFree) {
  EXPECT_FALSE(is_public({"127.0.0.1", 1}));
  EXPECT_FALSE(is_public({"::1", 1}));
  EXPECT_TRUE(is_public({"0.0.0.0", 1}));
  EXPECT_THAT(error_of([] { check_access({"0.0.0.0", 1}, {}); }), HasSubstr("--token-file FILE"));
  EXPECT_EQ(error_of([] { check_access({"127.0.0.1", 1}, {}); }), "no error");
  EXPECT_EQ(error_of([] {
              check_access({"0.0.0.0", 1}, {"0123456789abcdef", "", "", ""});
            }),
            "no error");
  EXPECT_EQ(error_of([] {
              check_access({"0.0.0.0", 1}, {"", "c.pem", "k.pem", "a.pem"});
            }),
            "no error");
  EXPECT_THAT(error_of([] {
                check_access({"0.0.0.0", 1}, {"", "c.pem", "k.pem", ""});
              }),
              HasSubstr("other machines can reach"));
  EXPECT_THAT(error_of([] {
                check_access({"127.0.0.1", 1}, {"", "c.pem", "", ""});
              }),
              HasSubstr("go together"));
  EXPECT_THAT(error_of([] {
                check_access({"127.0.0.1", 1}, {"", "", "", "a.pem"});
              }),
              HasSubstr("--tls-certificate and --tls-key as well"));
  EXPECT_THAT(error_of([] {
                check_access({"127.0.0.1", 1}, {"secret", "", "", ""});
              }),
              HasSubstr("too easily guessed"));
}

TEST(ListenAddress, ATokenIsShownWhole) {
  const FrontAccess access{"0123456789abcdef", "", "", ""};
  EXPECT_TRUE(lets_in(access, "Bearer 0123456789abcdef"));
  for (const char* shown :
       {"", "Bearer ", "0123456789abcdef", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0",
        "Bearer 0123456789abcdeF", "Bearer 0123456789abcdef0123456789abcdef"}) {
    EXPECT_FALSE(lets_in(access, shown)) << shown;
  }
  EXPECT_TRUE(lets_in({}, ""));
}

TEST(ListenAddress, ClientsHaveKeysOfTheirOwn) {
  const std::string text = "# who may ask\n\nana 0123456789abcdef\n  bo\tfedcba9876543210  \r\n";
  FrontAccess access;
  access.keys = parse_client_keys(text, "keys");
  EXPECT_EQ(access.keys.size(), 2u);
  EXPECT_EQ(client_of(access, "Bearer fedcba9876543210"), "bo");
  EXPECT_EQ(client_of(access, "Bearer 0123456789abcdef"), "ana");
  EXPECT_EQ(client_of(access, "Bearer 0123456789abcdee"), std::nullopt);
  access.token = "a-token-of-the-whole-service";
  EXPECT_EQ(client_of(access, "Bearer a-token-of-the-whole-service"), "");
  EXPECT_EQ(client_of({}, ""), "");
  check_access({"0.0.0.0", 1}, access);
  for (const char* wrong : {"ana\n", "ana short\n", "ana 0123456789abcdef more\n",
                            "ana 0123456789abcdef\nbo 0123456789abcdef\n",
                            "ana 0123456789abcdef\nana fedcba9876543210\n"}) {
    EXPECT_THAT(error_of([&] { (void)parse_client_keys(wrong, "keys"); }),
                HasSubstr("'keys', line"))
        << wrong;
  }
  EXPECT_THAT(error_of([] { (void)parse_client_keys("# none\n", "keys"); }),
              HasSubstr("holds no key"));
}

TEST(ListenAddress, ATakenPortIsNamed) {
  const Listening first = open_listening({"127.0.0.1", 0});
  EXPECT_GT(first.port, 0);
  EXPECT_THAT(error_of([&] {
                static_cast<void>(open_listening({"127.0.0.1", first.port}));
              }),
              HasSubstr("cannot listen on 127.0.0.1"));
}

}  // namespace
}  // namespace harmonics::inline in_serve
