#include "connection.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <harmonics/base/escaped.h>
#include <harmonics/base/file.h>
#include <harmonics/rpc/service.h>

#include "peer_check.h"
#include "server_speech.h"

namespace harmonics::inline in_rpc {
namespace {

constexpr const char* kTokenKey = "authorization";
constexpr std::string_view kTokenPrefix = "Bearer ";
constexpr std::size_t kMaxPemBytes = 1 << 20;
constexpr int kFirstRetryMs = 100;
constexpr int kLastRetryMs = 1000;
/// For one try to connect, also on a machine that is very busy. One that is refused ends at once.
constexpr int kConnectMs = 5000;
/// A peer that hangs keeps its connections: while a call is open it is asked whether it lives.
constexpr int kPingMs = 10000;
constexpr int kPingTimeoutMs = 5000;
/// For whoever connects to greet as TLS and HTTP/2 ask; gRPC would give them two minutes.
constexpr int kHandshakeMs = 10'000;
/// For a look at what listens where a call could not get through.
constexpr std::chrono::milliseconds kLook(1000);

namespace security = grpc::experimental;

/// Checks that come after those of TLS itself (chain, time, purpose).
class PeerVerifier final : public security::ExternalCertificateVerifier {
 public:
  explicit PeerVerifier(PeerRules rules) : rules_(std::move(rules)) {}

  bool Verify(security::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* verdict) override {
    const grpc::string_ref pem = request->peer_cert();
    const grpc::string_ref host = request->target_name();
    const std::string refusal =
        refuse_peer({pem.data(), pem.size()}, rules_,
                    host.data() == nullptr ? std::string() : std::string(host.data(), host.size()));
    if (!refusal.empty()) *verdict = {grpc::StatusCode::UNAUTHENTICATED, refusal};
    return true;
  }
  void Cancel(security::TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  const PeerRules rules_;
};

std::string pem(const std::filesystem::path& file) { return read_text_file(file, kMaxPemBytes); }

bool is_there(const std::filesystem::path& file) {
  return !file.empty() && std::filesystem::exists(file);
}

std::shared_ptr<security::CertificateProviderInterface> provider(
    const std::string& roots, const std::filesystem::path& key,
    const std::filesystem::path& certificate) {
  return std::make_shared<security::StaticDataCertificateProvider>(
      roots, std::vector<security::IdentityKeyCertPair>{{pem(key), pem(certificate)}});
}

std::shared_ptr<grpc::ChannelCredentials> dialling_credentials(const TlsFiles& files, Door door) {
  std::string roots = pem(files.authority);
  // Workers of older folders show at their doors what the cluster's authority signed.
  if (door == Door::kWorker && is_there(files.peer_authority)) roots += pem(files.peer_authority);
  security::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(provider(roots, files.key, files.certificate));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_check_call_host(false);  // the verifier has looked at the name that was dialled
  options.set_certificate_verifier(security::ExternalCertificateVerifier::Create<PeerVerifier>(
      PeerRules{files.authority, files.revoked, /*names_host=*/true}));
  return security::TlsCredentials(options);
}

}  // namespace

std::shared_ptr<grpc::Channel> open_channel(const std::string& address,
                                            const std::optional<TlsFiles>& tls, Door door) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstRetryMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLastRetryMs);
  // A name is looked up again after a lost connection; gRPC would wait 30 seconds with it.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kLastRetryMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  arguments.SetMaxReceiveMessageSize(kMaxClusterMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxClusterMessageBytes);
  return grpc::CreateCustomChannel(
      address, tls ? dialling_credentials(*tls, door) : grpc::InsecureChannelCredentials(),
      arguments);
}

std::shared_ptr<grpc::ServerCredentials> listening_credentials(const std::optional<TlsFiles>& tls,
                                                               Door door) {
  if (!tls) return grpc::InsecureServerCredentials();
  const bool peer = door == Door::kWorker && is_there(tls->peer_certificate);
  // Whoever dials, the cluster's authority has signed for it.
  security::TlsServerCredentialsOptions options(
      provider(pem(tls->authority), peer ? tls->peer_key : tls->key,
               peer ? tls->peer_certificate : tls->certificate));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.set_certificate_verifier(security::ExternalCertificateVerifier::Create<PeerVerifier>(
      PeerRules{tls->authority, tls->revoked, /*names_host=*/false}));
  return security::TlsServerCredentials(options);
}

void set_server_limits(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxClusterMessageBytes);
  builder.SetMaxSendMessageSize(kMaxClusterMessageBytes);
  // Pings of kPingMs are no abuse.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingMs / 2);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  // A second server on the same port is a mistake, not a way to share the load.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

void add_token(grpc::ClientContext& context, const std::string& token) {
  context.AddMetadata(kTokenKey, std::string(kTokenPrefix) + token);
}

std::string token_of(const grpc::ServerContextBase& context) {
  const auto found = context.client_metadata().find(kTokenKey);
  if (found == context.client_metadata().end()) return {};
  const std::string_view text(found->second.data(), found->second.size());
  if (!text.starts_with(kTokenPrefix)) return {};
  return std::string(text.substr(kTokenPrefix.size()));
}

grpc::Status status_of(ErrorCode code, const std::string& message) {
  return {static_cast<grpc::StatusCode>(code), message};
}

std::string unreachable_text(const std::string& server, bool tls, const std::string& said) {
  if (said.starts_with("the server ")) return said;  // it is there, and says so itself
  for (const std::string& address : server_addresses(server)) {
    const Speech speech = speech_of(address, kLook);
    if (speech == Speech::kTls && !tls) {
      return format(
          "the server at {} speaks TLS and this end does not: give --tls FOLDER (or "
          "HARMONICS_TLS) with the files that 'harmonics server --init' made",
          address);
    }
    if (speech == Speech::kPlain && tls) {
      return format(
          "the server at {} does not speak TLS: leave out --tls (and HARMONICS_TLS), or "
          "start it with --tls FOLDER",
          address);
    }
    if (speech == Speech::kTls) {
      return format(
          "the server at {} and this end do not accept each other's certificates: are they of the "
          "same 'harmonics server --init', still valid, not revoked, and is that a name of the "
          "server's? ({})",
          address, said);
    }
  }
  return format(
      "no server answers at {}: start one with 'harmonics server', or name another with "
      "--scheduler ({})",
      server, said);
}

Error error_of(const grpc::Status& status, const std::string& server, bool tls) {
  const auto code = static_cast<ErrorCode>(status.error_code());
  if (code == ErrorCode::kUnavailable) {
    return {code, unreachable_text(server, tls, escaped(status.error_message()))};
  }
  if (code == ErrorCode::kDeadlineExceeded) {
    return {code,
            format("the server at {} did not answer in time; is it the right address?", server)};
  }
  return {code, escaped(status.error_message())};
}

void check(const grpc::Status& status, const std::string& server, bool tls) {
  if (!status.ok()) throw error_of(status, server, tls);
}

}  // namespace harmonics::inline in_rpc
