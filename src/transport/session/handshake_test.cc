#include "handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <error_testing.h>

namespace harmonics::inline in_transport {
namespace {

using ::testing::HasSubstr;

Greeting sample() {
  Greeting greeting;
  greeting.run = std::string(kMaxRunName, 'r');
  greeting.boundary = std::string(kMaxBoundaryName, 'b');
  greeting.instance = {1, 2};
  greeting.peer = {3, 4};
  greeting.attempt = 5;
  greeting.progress = {9, 7};
  greeting.window = {1000, kMaxWindowMessages};
  greeting.compress = true;
  greeting.max_message_size = 2147483647;
  greeting.nonce = random_nonce();
  return greeting;
}

std::string greeting_error(const Greeting& greeting) {
  return error_of([&] { (void)decode_greeting(encode_greeting(greeting)); });
}

TEST(Handshake, GreetingRoundTripAtItsCeilings) {
  const Greeting greeting = sample();
  EXPECT_EQ(decode_greeting(encode_greeting(greeting)), greeting);
  EXPECT_LE(encode_greeting(greeting).size(), kMaxGreetingBytes);
}

TEST(Handshake, GreetingsThatCannotBeAreRefused) {
  const auto changed = [](auto change) {
    Greeting greeting = sample();
    change(greeting);
    return greeting_error(greeting);
  };
  EXPECT_NE(changed([](Greeting& g) { g.run += 'r'; }), "no error");
  EXPECT_NE(changed([](Greeting& g) { g.boundary += 'b'; }), "no error");
  EXPECT_THAT(changed([](Greeting& g) { g.instance = {}; }), HasSubstr("who it is"));
  EXPECT_THAT(changed([](Greeting& g) { g.progress = {1, 2}; }), HasSubstr("more was taken"));
  EXPECT_THAT(changed([](Greeting& g) { g.window.bytes = 0; }), HasSubstr("window"));
  EXPECT_THAT(changed([](Greeting& g) { g.window.messages = 0; }), HasSubstr("window"));
  EXPECT_THAT(changed([](Greeting& g) { ++g.window.messages; }), HasSubstr("window"));
  EXPECT_THAT(changed([](Greeting& g) { ++g.max_message_size; }), HasSubstr("max_message_size"));
  Bytes longer = encode_greeting(sample());
  longer.push_back(std::byte{0});
  EXPECT_THAT(error_of([&] { (void)decode_greeting(longer); }), HasSubstr("bytes follow"));
  longer.resize(40);
  EXPECT_THAT(error_of([&] { (void)decode_greeting(longer); }), HasSubstr("data_loss"));
}

TEST(Handshake, RefusalRoundTripAndCleaning) {
  const RefusedGreeting refusal{ErrorCode::kPermissionDenied, true, "no\x1b[31m way\n"};
  const RefusedGreeting back = decode_refused_greeting(encode_refused_greeting(refusal));
  EXPECT_EQ(back.code, refusal.code);
  EXPECT_TRUE(back.passing);
  EXPECT_EQ(back.reason, R"(no\x1b[31m way\n)");
  const RefusedGreeting endless{ErrorCode::kUnavailable, false, std::string(10'000, 'x')};
  EXPECT_EQ(decode_refused_greeting(encode_refused_greeting(endless)).reason.size(), kMaxReason);
  EXPECT_NE(error_of([] { (void)decode_refused_greeting(Bytes(6, std::byte{0})); }), "no error");
}

TEST(Handshake, ChallengeAndProofRoundTrip) {
  Challenge challenge;
  challenge.nonce = random_nonce();
  challenge.salt = own_token_salt();
  challenge.proof = sha256(bytes_of("x"));
  const Challenge back = decode_challenge(encode_challenge(challenge));
  EXPECT_EQ(back.nonce, challenge.nonce);
  EXPECT_EQ(back.salt, challenge.salt);
  EXPECT_EQ(back.proof, challenge.proof);
  EXPECT_EQ(decode_proof(encode_proof(challenge.proof)), challenge.proof);
  EXPECT_NE(error_of([] { (void)decode_proof(Bytes(31)); }), "no error");
  EXPECT_NE(error_of([] { (void)decode_challenge(Bytes(65)); }), "no error");
}

TEST(Handshake, AProofHoldsForOneTokenRoleAndGreeting) {
  const Greeting hello = sample();
  const Nonce nonce = random_nonce();
  const Digest key = token_key("secret", own_token_salt());
  const Digest other = token_key("Secret", own_token_salt());
  const Digest proof = token_proof(key, Prover::kConnector, hello, nonce);
  EXPECT_TRUE(same_digest(proof, token_proof(key, Prover::kConnector, hello, nonce)));
  EXPECT_FALSE(same_digest(proof, token_proof(other, Prover::kConnector, hello, nonce)));
  EXPECT_FALSE(same_digest(proof, token_proof(key, Prover::kListener, hello, nonce)));
  EXPECT_FALSE(same_digest(proof, token_proof(key, Prover::kConnector, sample(), nonce)));
  EXPECT_FALSE(same_digest(proof, token_proof(key, Prover::kConnector, hello, random_nonce())));
}

TEST(Handshake, TheSmallerNonZeroSizeHolds) {
  EXPECT_EQ(agreed_message_size(0, 0), kDefaultMaxMessageSize);
  EXPECT_EQ(agreed_message_size(5, 0), 5u);
  EXPECT_EQ(agreed_message_size(0, 5), 5u);
  EXPECT_EQ(agreed_message_size(7, 5), 5u);
}

}  // namespace
}  // namespace harmonics::inline in_transport
