// One end of a boundary whose other end is several hosts, which take turns.
#pragma once

#include <functional>

#include <harmonics/transport/transport.h>

namespace harmonics::inline in_transport {

/// The most hosts that a binding may list.
inline constexpr std::size_t kMaxTurnHosts = 64;

/// Whether the binding names several hosts ("a,b,c").
[[nodiscard]] bool lists_hosts(const RemoteBinding& binding);

/// Connects to every host of the list with `make`; each of them sees an ordinary boundary.
///
/// Sending: the first activation or gradient goes to the first host, the next one to the second,
/// and so on in a circle. Epoch ends and control messages go to all hosts, in the order of the
/// list, and take no turn.
///
/// Receiving: from the hosts in the same circle, so that the answer to the n-th message sent is the
/// n-th one received whatever host is quicker. Epoch ends and control messages must come from all
/// hosts at the same place, and alike (kFailedPrecondition); they are handed on once. The boundary
/// has ended when the host whose turn it is has closed.
///
/// Failure: a connection that breaks is made anew as with one host. A host that is gone for good
/// (it was restarted, it went away, it refuses) is an Error of the call whose turn is that host's,
/// which names it, and of every later call: what a dead host had done with its share cannot be
/// known, so nothing is dealt again. Deadlines leave the turn where it was.
[[nodiscard]] TransportPtr make_host_turns(
    const RemoteBinding& binding, const TransportOptions& options,
    const std::function<TransportPtr(const RemoteBinding&, const TransportOptions&)>& make);

}  // namespace harmonics::inline in_transport
