// Requests of HTTP out of bytes.
#include "http_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/random.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_serve {
namespace {

using Stage = HttpParser::Stage;

const char* const kPost =
    "POST /v2/models/net/infer?x=1 HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n"
    "X-Word:  two words \r\n\r\nhello";

TEST(HttpParser, ReadsARequestInPiecesOfAnySize) {
  const std::string_view text = kPost;
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    HttpParser parser(100);
    EXPECT_TRUE(parser.is_fresh());
    for (std::size_t at = 0; at < text.size(); at += piece) parser.feed(text.substr(at, piece));
    ASSERT_EQ(parser.stage(), Stage::kWhole) << piece;
    const HttpQuery query = parser.take();
    EXPECT_EQ(query.method, "POST");
    EXPECT_EQ(query.path, "/v2/models/net/infer");
    EXPECT_EQ(query.header("x-word"), "two words");
    EXPECT_EQ(query.header("absent"), "");
    EXPECT_EQ(query.body, "hello");
    EXPECT_TRUE(query.keep_alive);
    EXPECT_TRUE(parser.is_fresh());
  }
}

TEST(HttpParser, WhatComesBehindARequestIsTheNext) {
  HttpParser parser(100);
  parser.feed(kPost);
  parser.feed("GET /v2 HTTP/1.1\r\nConnection: close\r\n\r\nGET /me");
  ASSERT_EQ(parser.stage(), Stage::kWhole);
  EXPECT_EQ(parser.take().body, "hello");
  ASSERT_EQ(parser.stage(), Stage::kWhole);
  const HttpQuery second = parser.take();
  EXPECT_EQ(second.path, "/v2");
  EXPECT_FALSE(second.keep_alive);
  EXPECT_EQ(parser.stage(), Stage::kHead);
  EXPECT_FALSE(parser.is_fresh());
}

TEST(HttpParser, OldClientsCloseUnlessTheySayOtherwise) {
  HttpParser parser(100);
  parser.feed("GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
  EXPECT_FALSE(parser.take().keep_alive);
  EXPECT_TRUE(parser.take().keep_alive);
}

TEST(HttpParser, AnExpectationIsAnsweredOnce) {
  HttpParser parser(100);
  parser.feed("POST / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(parser.stage(), Stage::kBody);
  EXPECT_EQ(parser.body_bytes(), 2U);
  EXPECT_TRUE(parser.take_expectation());
  EXPECT_FALSE(parser.take_expectation());
}

TEST(HttpParser, WhatIsWrongHasAStatus) {
  const auto status = [](const std::string& text) {
    HttpParser parser(100);
    parser.feed(text);
    return parser.stage() == Stage::kBroken ? parser.status() : 0;
  };
  EXPECT_EQ(status("hello\r\n\r\n"), 400);
  EXPECT_EQ(status("GET  HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status("GET http://x/ HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/2\r\n\r\n"), 505);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nno header\r\n\r\n"), 400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"), 400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"), 400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), 411);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: 101\r\n\r\n"), 413);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nA: " + std::string(HttpParser::kMaxHead, 'a')), 431);
  std::string many = "GET / HTTP/1.1\r\n";
  for (std::size_t i = 0; i <= HttpParser::kMaxHeaders; ++i)
    many += "h" + std::to_string(i) + ": 1\r\n";
  EXPECT_EQ(status(many + "\r\n"), 431);
}

// A fixed slice of what the fuzzer does, in every build.
TEST(HttpParser, MutationsInPieces) {
  Random random(5, "http fuzz");
  for (int i = 0; i < 20000; ++i) {
    std::string input = static_cast<char>(random.below(40)) + std::string(kPost);
    if (random.below(2) == 0) input += kPost;
    for (std::uint64_t n = random.below(5); n > 0; --n) {
      input[random.below(input.size())] = random.below(2) == 0
                                              ? static_cast<char>(random.below(256))
                                              : "\r\n :1H/"[random.below(7)];
    }
    if (random.below(8) == 0) input.resize(random.below(input.size() + 1));
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_serve
