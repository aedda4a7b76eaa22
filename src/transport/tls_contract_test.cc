// What every transport that speaks TLS promises. A new one joins with a line at the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <error_testing.h>

#include "carriers_testing.h"
#include "endpoint_testing.h"
#include "tls_testing.h"

namespace harmonics::inline in_transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TlsContract : public ::testing::TestWithParam<RemoteTransport> {
 protected:
  void SetUp() override {
    if (!is_built(GetParam())) GTEST_SKIP() << "this build lacks the transport";
  }
  static TransportOptions with(const TlsOptions& tls) {
    TransportOptions options;
    options.tls = tls;
    options.handshake_timeout = std::chrono::milliseconds(500);
    return options;
  }
  static RemoteBinding boundary() { return named("x", GetParam()); }
  static std::string listening_error(const TlsOptions& tls) {
    return error_of([&] { (void)listening_end(boundary(), with(tls)); });
  }
  const LogCapture capture_;
  const TestCertificates certificates_;
};

TEST_P(TlsContract, AStrangersCertificateIsRefusedOnEitherSide) {
  const TransportPtr strange = listening_end(boundary(), with(certificates_.stranger()));
  const TransportPtr careful = connecting_end(*strange, with(certificates_.options()));
  EXPECT_THAT(receive_error(*careful), HasSubstr("unauthenticated"));

  const TransportPtr guarded = listening_end(boundary(), with(certificates_.options()));
  const TransportPtr stranger = connecting_end(*guarded, with(certificates_.stranger()));
  EXPECT_NE(receive_error(*stranger, soon()), "no error");
  const TransportPtr friendly = connecting_end(*guarded, with(certificates_.options()));
  expect_talk(*guarded, *friendly);
}

TEST_P(TlsContract, TheNameInTheCertificateCounts) {
  const TransportPtr listening = listening_end(boundary(), with(certificates_.options()));
  TlsOptions tls = certificates_.options();
  tls.server_name = "elsewhere.example";
  EXPECT_THAT(receive_error(*connecting_end(*listening, with(tls))), HasSubstr("unauthenticated"));
  tls.server_name = "localhost";
  const TransportPtr right = connecting_end(*listening, with(tls));
  expect_talk(*listening, *right);
}

TEST_P(TlsContract, AnEndWithoutTlsGetsNowhere) {
  const TransportPtr secure = listening_end(boundary(), with(certificates_.options()));
  EXPECT_NE(receive_error(*connecting_end(*secure), soon()), "no error");
  const TransportPtr open = listening_end(boundary());
  EXPECT_NE(receive_error(*connecting_end(*open, with(certificates_.options())), soon()),
            "no error");
  const TransportPtr friendly = connecting_end(*secure, with(certificates_.options()));
  expect_talk(*secure, *friendly);
}

TEST_P(TlsContract, SharingAPortTakesTheSameOptions) {
  const TransportPtr first = listening_end(boundary(), with(certificates_.options()));
  RemoteBinding second = first->binding();
  second.name = "y";
  EXPECT_THAT(error_of([&] { (void)make_transport(second); }), HasSubstr("same TLS options"));
}

TEST_P(TlsContract, UnusableFilesAreNamed) {
  TlsOptions tls = certificates_.options();
  tls.certificate_file = "missing.pem";
  EXPECT_THAT(listening_error(tls), AllOf(HasSubstr("invalid_argument"), HasSubstr("missing.pem")));
  tls = certificates_.options();
  tls.key_file = certificates_.stranger().key_file;
  EXPECT_THAT(listening_error(tls), HasSubstr("key"));
}

INSTANTIATE_TEST_SUITE_P(All, TlsContract,
                         ::testing::Values(RemoteTransport::TCP, RemoteTransport::GRPC,
                                           RemoteTransport::Flight),
                         [](const auto& info) { return std::string(transport_name(info.param)); });

}  // namespace
}  // namespace harmonics::inline in_transport
