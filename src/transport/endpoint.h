// Who listens: from a binding to a transport that listens or connects.
#pragma once

#include <functional>

#include "session/session_transport.h"

namespace harmonics::inline in_transport {

/// TCP between hosts.
[[nodiscard]] TransportPtr make_tcp(const RemoteBinding& binding, const TransportOptions& options);

/// gRPC between hosts; where the program does not link it, an Error (kUnimplemented) that names
/// the target.
[[nodiscard]] TransportPtr make_grpc(const RemoteBinding& binding, const TransportOptions& options);

/// Shared memory inside one host: whoever comes first listens, on a local socket.
[[nodiscard]] TransportPtr make_shm(const RemoteBinding& binding, const TransportOptions& options);

/// Arrow Flight between hosts, likewise.
[[nodiscard]] TransportPtr make_flight(const RemoteBinding& binding,
                                       const TransportOptions& options);

/// The end for which the host is local listens, the other connects; on one host whoever comes first
/// listens. `route` holds all but the listener and the limit of silence.
[[nodiscard]] TransportPtr make_between_hosts(const RemoteBinding& binding,
                                              const TransportOptions& options, Route route);

/// What listening at `address` leads to: this end listens there, or it has to connect because
/// someone was first. `must_listen` makes the latter an Error (kAlreadyExists). `route` holds all
/// but the listener.
[[nodiscard]] TransportPtr listen_or_connect(const SocketAddress& address, bool must_listen,
                                             const RemoteBinding& binding,
                                             const TransportOptions& options, Route route);

}  // namespace harmonics::inline in_transport
