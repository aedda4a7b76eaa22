// Channels, credentials and states of calls (private to rpc).
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include <harmonics/base/error.h>
#include <harmonics/rpc/client.h>
#include <harmonics/rpc/tls.h>

namespace harmonics::inline in_rpc {

/// Whose door it is: a worker's shows a certificate of the peers' authority where there is one.
enum class Door { kServer, kWorker };

/// A channel of its own (not shared with others to the same address), which tries again quickly.
[[nodiscard]] std::shared_ptr<grpc::Channel> open_channel(const std::string& address,
                                                          const std::optional<TlsFiles>& tls,
                                                          Door door = Door::kServer);
[[nodiscard]] std::shared_ptr<grpc::ServerCredentials> listening_credentials(
    const std::optional<TlsFiles>& tls, Door door);
/// The limits that both kinds of servers have.
void set_server_limits(grpc::ServerBuilder& builder);

void add_token(grpc::ClientContext& context, const std::string& token);
/// What a caller showed; empty: nothing.
[[nodiscard]] std::string token_of(const grpc::ServerContextBase& context);

[[nodiscard]] grpc::Status status_of(ErrorCode code, const std::string& message);
/// Why `server` (a list of addresses) cannot be talked to, in a sentence: nobody there, TLS on one
/// side only, or certificates that are refused. Looks, for a second at most; `said` is gRPC's text.
[[nodiscard]] std::string unreachable_text(const std::string& server, bool tls,
                                           const std::string& said);
/// What a bad status means; why a server cannot be reached is said for a client with (`tls`) or
/// without TLS.
[[nodiscard]] Error error_of(const grpc::Status& status, const std::string& server, bool tls);
/// Throws that Error unless `status` is good.
void check(const grpc::Status& status, const std::string& server, bool tls);

}  // namespace harmonics::inline in_rpc
