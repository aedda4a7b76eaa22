// Channels, credentials and states of calls (private to rpc).
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include <harmonics/base/error.h>
#include <harmonics/rpc/client.h>
#include <harmonics/rpc/tls.h>

namespace harmonics {

/// A channel of its own (not shared with others to the same address), which tries again quickly.
[[nodiscard]] std::shared_ptr<grpc::Channel> open_channel(const std::string& address,
                                                          const std::optional<TlsFiles>& tls);
[[nodiscard]] std::shared_ptr<grpc::ServerCredentials> listening_credentials(
    const std::optional<TlsFiles>& tls);
/// The limits that both kinds of servers have.
void set_server_limits(grpc::ServerBuilder& builder);

void add_token(grpc::ClientContext& context, const std::string& token);
/// What a caller showed; empty: nothing.
[[nodiscard]] std::string token_of(const grpc::ServerContextBase& context);

[[nodiscard]] grpc::Status status_of(ErrorCode code, const std::string& message);
/// Throws an Error unless `status` is good; `server` is named when it cannot be reached.
void check(const grpc::Status& status, const std::string& server);

}  // namespace harmonics
