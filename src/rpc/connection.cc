#include "connection.h"

#include <harmonics/base/escaped.h>
#include <harmonics/base/file.h>
#include <harmonics/rpc/service.h>

namespace harmonics {
namespace {

constexpr const char* kTokenKey = "authorization";
constexpr std::string_view kTokenPrefix = "Bearer ";
constexpr std::size_t kMaxPemBytes = 1 << 20;
constexpr int kFirstRetryMs = 100;
constexpr int kLastRetryMs = 1000;
/// For one try to connect, also on a machine that is very busy. One that is refused ends at once.
constexpr int kConnectMs = 5000;

}  // namespace

std::shared_ptr<grpc::Channel> open_channel(const std::string& address,
                                            const std::optional<TlsFiles>& tls) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstRetryMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLastRetryMs);
  // A name is looked up again after a lost connection; gRPC would wait 30 seconds with it.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kLastRetryMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxClusterMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxClusterMessageBytes);
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (tls) {
    credentials = grpc::SslCredentials({read_text_file(tls->authority, kMaxPemBytes),
                                        read_text_file(tls->key, kMaxPemBytes),
                                        read_text_file(tls->certificate, kMaxPemBytes)});
  }
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

std::shared_ptr<grpc::ServerCredentials> listening_credentials(const std::optional<TlsFiles>& tls) {
  if (!tls) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = read_text_file(tls->authority, kMaxPemBytes);
  options.pem_key_cert_pairs.push_back(
      {read_text_file(tls->key, kMaxPemBytes), read_text_file(tls->certificate, kMaxPemBytes)});
  return grpc::SslServerCredentials(options);
}

void set_server_limits(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxClusterMessageBytes);
  builder.SetMaxSendMessageSize(kMaxClusterMessageBytes);
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

void check(const grpc::Status& status, const std::string& server) {
  if (status.ok()) return;
  const auto code = static_cast<ErrorCode>(status.error_code());
  if (code == ErrorCode::kUnavailable) {
    fail(code,
         "no server answers at {}: start one with 'harmonics server', or name another with "
         "--scheduler ({})",
         server, escaped(status.error_message()));
  }
  if (code == ErrorCode::kDeadlineExceeded) {
    fail(code,
         "the server at {} did not answer in time; is it the right address, and does it use "
         "TLS?",
         server);
  }
  throw Error(code, escaped(status.error_message()));
}

}  // namespace harmonics
