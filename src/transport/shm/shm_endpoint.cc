#include <unistd.h>

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/custody/digest.h>

#include "endpoint.h"
#include "shm_connection.h"

namespace harmonics::inline in_transport {
namespace {

// One name per user, port and boundary. The host is left out: both ends are on this one, however
// they spell it.
SocketAddress meeting_place(const RemoteBinding& binding) {
  const std::string name = format("{}/{}/{}", ::geteuid(), binding.port, binding.name);
  return SocketAddress::local("harmonics-" + digest_text(sha256(bytes_of(name))).substr(0, 32));
}

void check_host(const RemoteBinding& binding) {
  const std::vector<SocketAddress> addresses = resolve(binding.host, binding.port);
  if (std::ranges::none_of(addresses, &SocketAddress::is_local)) {
    fail(ErrorCode::kInvalidArgument,
         "boundary '{}': shared memory needs both ends on one host, but '{}' is {}; use tcp",
         binding.name, binding.host, addresses.front().text());
  }
}

}  // namespace

TransportPtr make_shm(const RemoteBinding& binding, const TransportOptions& asked) {
  check_host(binding);
  TransportOptions options = asked;
  options.window.messages = std::min(asked.window.messages, kMaxShmMessages);
  if (options.tls.enabled()) {
    fail(ErrorCode::kInvalidArgument,
         "boundary '{}': shared memory does not leave the host, so there is nothing for TLS to "
         "protect; leave the TLS options out or use tcp",
         binding.name);
  }
  const SocketAddress address = meeting_place(binding);
  Route route;
  route.may_reconnect = false;
  route.open_listener = open_socket_listener;
  route.make_connection = make_shm_connection;
  route.connect = [address](Deadline deadline, const WakeEvent& cancel) {
    return make_plain_stream(connect_to(address, deadline, cancel), "the other process");
  };
  if (!binding.listen.value_or(true)) {
    auto transport = std::make_unique<SessionTransport>(binding, options, std::move(route));
    (void)transport->start();
    return transport;
  }
  return listen_or_connect(address, binding.listen.has_value(), binding, options, std::move(route));
}

}  // namespace harmonics::inline in_transport
