// Tokens: what they must be, and what a guess costs; and how much strangers may write to a log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <error_testing.h>

#include "endpoint_testing.h"
#include "log_limit.h"
#include "token_key.h"

namespace harmonics::inline in_transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(TokenKey, DependsOnTokenAndSaltAlone) {
  TokenSalt salt{};
  const Digest key = token_key("a token", salt);
  EXPECT_EQ(token_key("a token", salt), key);
  EXPECT_NE(token_key("A token", salt), key);
  salt[3] = std::byte{1};
  EXPECT_NE(token_key("a token", salt), key);
  EXPECT_EQ(token_key("a token", TokenSalt{}), key);
}

// Computed with another implementation: hashlib.scrypt(b"a token", salt=bytes(16), n=2**15, r=8,
// p=1, maxmem=2**26, dklen=32).
TEST(TokenKey, IsScrypt) {
  EXPECT_EQ(digest_text(token_key("a token", TokenSalt{})),
            "c526c28f7f2ed74727598939771314ad2b419187a768fa80a2c392e1c25557f1");
}

TEST(Token, TheStrengthIsEstimated) {
  EXPECT_EQ(token_bits(""), 0);
  EXPECT_EQ(token_bits("aaaaaaaaaaaaaaaaaaaaaaaa"), 0);
  EXPECT_DOUBLE_EQ(token_bits("abababab"), 8);
  EXPECT_LT(token_bits("password123"), kMinTokenBits);
  EXPECT_GT(token_bits("0f1e2d3c4b5a69788796a5b4c3d2e1f0"), 100);
}

TEST(Token, OneThatIsEasilyGuessedIsRefused) {
  TransportOptions options;
  options.token = "swordfish";
  EXPECT_THAT(error_of([&] { (void)listening_end(named("x"), options); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("openssl rand -hex 16")));
}

TEST(LogLimit, LetsAFewLinesThroughThenOneNowAndThen) {
  LogLimit limit;
  LogLimit::Instant now = std::chrono::steady_clock::now();
  for (int i = 0; i < LogLimit::kAtOnce; ++i) EXPECT_EQ(limit.take(now), 0u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(limit.take(now), std::nullopt);
  now += LogLimit::kBetween;
  EXPECT_EQ(limit.take(now), 1000u);
  EXPECT_EQ(limit.take(now), std::nullopt);
  now += 2 * LogLimit::kAtOnce * LogLimit::kBetween;
  EXPECT_EQ(limit.take(now), 1u);
  for (int i = 1; i < LogLimit::kAtOnce; ++i) EXPECT_EQ(limit.take(now), 0u);
  EXPECT_EQ(limit.take(now), std::nullopt);
}

// 192.0.2.1 is nobody's: the end listens at every address of this machine.
TEST(OpenDoor, ListeningBeyondThisMachineWithoutATokenIsSaidOnce) {
  const LogCapture capture;
  RemoteBinding binding{"x", "192.0.2.1", 0};
  binding.listen = true;
  const TransportPtr first = make_transport(binding);
  binding.port = first->binding().port;
  binding.name = "y";
  const TransportPtr second = make_transport(binding);
  const auto is_warning = [](const std::string& line) {
    return line.find("listens without a token") != std::string::npos;
  };
  const std::vector<std::string> lines = capture.lines();
  EXPECT_EQ(std::ranges::count_if(lines, is_warning), 1);
}

TEST(OpenDoor, WhereASecretIsNeededItIsRefused) {
  TransportOptions options;
  options.needs_secret = true;
  RemoteBinding binding{"x", "192.0.2.1", 0};
  binding.listen = true;
  try {
    static_cast<void>(make_transport(binding, options));
    FAIL() << "it listens";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_THAT(error.what(), HasSubstr("--token-file"));
  }
  const TransportPtr near = make_transport({"x", "127.0.0.1", 0}, options);
  options.token = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
  const TransportPtr guarded = make_transport(binding, options);
}

TEST(OpenDoor, WithATokenOrOnThisMachineAloneNothingIsSaid) {
  const LogCapture capture;
  TransportOptions options;
  options.token = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
  RemoteBinding binding{"x", "192.0.2.1", 0};
  binding.listen = true;
  const TransportPtr guarded = make_transport(binding, options);
  const TransportPtr near = listening_end(named("x"));
  for (const std::string& line : capture.lines()) EXPECT_THAT(line, HasSubstr("debug"));
}

}  // namespace
}  // namespace harmonics::inline in_transport
