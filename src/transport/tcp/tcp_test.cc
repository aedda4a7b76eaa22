// Who listens, who is let in, and what strangers are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <harmonics/base/log.h>
#include <harmonics/base/random.h>
#include <harmonics/transport/hosts.h>

#include <error_testing.h>

#include "endpoint_testing.h"
#include "frame/frame_testing.h"
#include "reception.h"
#include "session/handshake.h"
#include "tls_testing.h"

namespace harmonics::inline in_transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TransportOptions in_run(const std::string& run) {
  TransportOptions options;
  options.run = run;
  return options;
}

// --- who listens ---

TEST(TcpEndpoints, WhoeverComesFirstListens) {
  RemoteBinding binding = named("x");
  binding.host = "localhost";
  const TransportPtr first = make_transport(binding);
  EXPECT_NE(first->binding().port, 0);
  const TransportPtr second = make_transport(first->binding());
  expect_talk(*first, *second);
}

TEST(TcpEndpoints, BoundariesShareAPort) {
  const TransportPtr a0 = listening_end(named("a"));
  RemoteBinding b = a0->binding(), c = a0->binding();
  b.name = "b";
  c.name = "c";
  // Before the other end listens, and after.
  b.listen = false;
  const TransportPtr b1 = make_transport(b);
  b.listen = true;
  const TransportPtr b0 = make_transport(b);
  const TransportPtr c0 = make_transport(c);
  const TransportPtr a1 = connecting_end(*a0);
  const TransportPtr c1 = connecting_end(*c0);
  expect_talk(*a0, *a1);
  expect_talk(*b0, *b1);
  expect_talk(*c0, *c1);
  EXPECT_EQ(a0->binding().port, c0->binding().port);
}

TEST(TcpEndpoints, ListeningTwiceForOneBoundaryIsAnError) {
  const TransportPtr first = listening_end(named("x"));
  EXPECT_THAT(error_of([&] { (void)make_transport(first->binding()); }),
              AllOf(HasSubstr("already_exists"), HasSubstr("'x'")));
}

TEST(TcpEndpoints, APortOfAnotherProgramIsAnErrorForWhoMustListen) {
  const auto taken = listen_on(resolve("127.0.0.1", 0).front());
  RemoteBinding binding{"x", "127.0.0.1", bound_address(*taken).port()};
  binding.listen = true;
  EXPECT_THAT(error_of([&] { (void)make_transport(binding); }),
              AllOf(HasSubstr("already_exists"), HasSubstr("another port")));
}

TEST(TcpEndpoints, AliasesLeadToAddresses) {
  set_host_alias("host-a.test", "127.0.0.1");
  const TransportPtr first = make_transport({"x", "host-a.test", 0});
  const TransportPtr second = make_transport(first->binding());
  expect_talk(*first, *second);
  set_host_alias("host-a.test", "");
  RemoteBinding gone{"x", "host-a.test", 9000};
  gone.listen = true;
  EXPECT_THAT(error_of([&] { (void)make_transport(gone); }), HasSubstr("not_found"));
}

TEST(TcpEndpoints, AliasesReachTheirCeiling) {
  std::size_t made = 0;
  std::string error;
  while ((error = error_of([&] { set_host_alias(format("alias{}", made), "127.0.0.1"); })) ==
         "no error") {
    ASSERT_LE(++made, kMaxHostAliases);
  }
  EXPECT_THAT(error, HasSubstr("resource_exhausted"));
  for (std::size_t i = 0; i < made; ++i) set_host_alias(format("alias{}", i), "");
}

TEST(TcpEndpoints, ANameThatNobodyKnowsIsTriedUntilTheDeadline) {
  const TransportPtr end = make_transport({"x", "no-such-host.invalid", 9000});
  EXPECT_THAT(receive_error(*end, soon()),
              AllOf(HasSubstr("deadline_exceeded"), HasSubstr("no-such-host.invalid")));
}

TEST(TcpEndpoints, APeerThatNeverComesIsADeadlineError) {
  const TransportPtr listening = listening_end(named("hidden@1"));
  EXPECT_THAT(receive_error(*listening, soon()),
              AllOf(HasSubstr("deadline_exceeded"), HasSubstr("hidden@1"), HasSubstr("message 1"),
                    HasSubstr("no connection yet")));
  EXPECT_THAT(error_of([&] { listening->send(one(), soon()); }),
              AllOf(HasSubstr("deadline_exceeded"), HasSubstr("message 1"),
                    HasSubstr("the peer did not come")));
  listening->close(patient());  // nothing was sent, so there is nothing to wait for

  const auto silent = listen_on(resolve("127.0.0.1", 0).front());
  RemoteBinding binding{"hidden@1", "127.0.0.1", bound_address(*silent).port()};
  binding.listen = false;
  const TransportPtr connecting = make_transport(binding);
  EXPECT_THAT(receive_error(*connecting, soon()),
              AllOf(HasSubstr("deadline_exceeded"), HasSubstr(std::to_string(binding.port))));
}

TEST(TcpEndpoints, WrongOptionsAreErrors) {
  const auto making = [](RemoteBinding binding, TransportOptions options) {
    return error_of([&] { (void)make_transport(binding, options); });
  };
  const RemoteBinding binding{"x", "127.0.0.1", 0};
  TransportOptions options;
  options.window.messages = kMaxWindowMessages + 1;
  EXPECT_THAT(making(binding, options), HasSubstr("invalid_argument"));
  EXPECT_THAT(making(binding, in_run(std::string(kMaxRunName + 1, 'r'))), HasSubstr("run"));
  options = {};
  options.token = std::string(kMaxToken + 1, 't');
  EXPECT_THAT(making(binding, options), HasSubstr("token"));
  options = {};
  options.heartbeat = Nanoseconds(0);
  EXPECT_THAT(making(binding, options), HasSubstr("heartbeat"));
  RemoteBinding connecting = binding;
  connecting.listen = false;
  EXPECT_THAT(making(connecting, {}), HasSubstr("needs a port"));
  EXPECT_THAT(making({"x", "127.0.0.1,127.0.0.2", 1}, {}), HasSubstr("only a gRPC binding"));
}

// --- who is let in ---

TEST(TcpGreeting, AnotherRunIsRefused) {
  const TransportPtr listening = listening_end(named("x"), in_run("monday"));
  const TransportPtr wrong = connecting_end(*listening, in_run("tuesday"));
  EXPECT_THAT(receive_error(*wrong),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("monday"), HasSubstr("tuesday")));
  EXPECT_THAT(receive_error(*listening, soon()), HasSubstr("tuesday"));
  const TransportPtr right = connecting_end(*listening, in_run("monday"));
  expect_talk(*listening, *right);
}

TEST(TcpGreeting, AnUnknownBoundaryIsNamed) {
  const TransportPtr listening = listening_end(named("x"));
  RemoteBinding binding = listening->binding();
  binding.name = "y";
  binding.listen = false;
  const TransportPtr wrong = make_transport(binding);
  std::string error;
  do {
    error = receive_error(*wrong, soon());
  } while (error.find("no boundary") == std::string::npos);
  EXPECT_THAT(error, AllOf(HasSubstr("deadline_exceeded"), HasSubstr("no boundary 'y' listens")));
}

TEST(TcpGreeting, AThirdEndIsKeptOut) {
  const auto [first, second] = local_pair(named("x"));
  expect_talk(*first, *second);
  const TransportPtr third = connecting_end(*first);
  std::string error;
  do {
    error = receive_error(*third, soon());
  } while (error.find("has a peer already") == std::string::npos);
  expect_talk(*first, *second);
}

TEST(TcpGreeting, TokensMustAgree) {
  TransportOptions with, other, without;
  with.token = "secret 81b2c4f97d0e";
  other.token = "Secret 81b2c4f97d0e";
  const TransportPtr guarded = listening_end(named("x"), with);
  EXPECT_THAT(receive_error(*connecting_end(*guarded, without)),
              AllOf(HasSubstr("unauthenticated"), HasSubstr("asks for a token")));
  EXPECT_THAT(receive_error(*connecting_end(*guarded, other)),
              AllOf(HasSubstr("unauthenticated"), HasSubstr("another token")));
  const TransportPtr friendly = connecting_end(*guarded, with);
  expect_talk(*guarded, *friendly);

  const TransportPtr open = listening_end(named("x"), without);
  EXPECT_THAT(receive_error(*connecting_end(*open, with)),
              AllOf(HasSubstr("unauthenticated"), HasSubstr("does not ask")));
}

TEST(TcpGreeting, TheSmallerLimitHoldsAtBothEnds) {
  RemoteBinding binding = named("x");
  binding.max_message_size = 100;
  const TransportPtr listening = listening_end(binding);
  binding = listening->binding();
  binding.listen = false;
  binding.max_message_size = 0;
  const TransportPtr connecting = make_transport(binding);
  expect_talk(*listening, *connecting);
  Message large;
  large.tensor = Tensor::zeros({26});
  EXPECT_THAT(error_of([&] { connecting->send(large, patient()); }),
              AllOf(HasSubstr("resource_exhausted"), HasSubstr("104 bytes"), HasSubstr("'x'")));
}

TEST(TcpGreeting, EitherEndTurnsCompressionOn) {
  const TransportPtr listening = listening_end(named("x"));
  RemoteBinding binding = listening->binding();
  binding.listen = false;
  binding.compress = true;
  const TransportPtr connecting = make_transport(binding);
  Message zeros;
  zeros.tensor = Tensor::zeros({100'000});
  listening->send(zeros, patient());
  EXPECT_TRUE(same_message(connecting->receive(patient()).value(), zeros));
  EXPECT_LT(connecting->stats().socket_payload_received, 10'000u);
  EXPECT_EQ(connecting->stats().bytes_received, 400'000u);
}

// --- TLS ---

TEST(TcpTls, OneEndWithoutTlsIsToldSo) {
  const LogCapture capture;
  const TestCertificates certificates;
  TransportOptions with;
  with.tls = certificates.options();
  with.handshake_timeout = std::chrono::milliseconds(500);
  const TransportPtr secure = listening_end(named("x"), with);
  const TransportPtr plain = connecting_end(*secure);
  EXPECT_NE(receive_error(*plain, soon()), "no error");

  const TransportPtr open = listening_end(named("x"));
  const TransportPtr tls = connecting_end(*open, with);
  std::string error;
  do {
    error = receive_error(*tls, soon());
  } while (error.find("does it have TLS options?") == std::string::npos);
  std::string lines;
  for (const std::string& line : capture.lines()) lines += line + "\n";
  EXPECT_THAT(lines, HasSubstr("speaks TLS"));
}

}  // namespace
}  // namespace harmonics::inline in_transport
