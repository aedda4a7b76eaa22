#include "endpoint.h"

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_transport {
namespace {

// A connection counts as cut after this many periods without a sign of life.
constexpr int kSilentBeats = 3;

// Whoever can reach it and knows the names can be the other end. An authority makes the listening
// end ask for a certificate.
bool is_open_door(const SocketAddress& address, const TransportOptions& options) {
  return !address.is_loopback() && options.token.empty() && options.tls.authority_file.empty();
}

void refuse_open_door(const SocketAddress& address, const RemoteBinding& binding,
                      const TransportOptions& options) {
  if (!options.needs_secret || !is_open_door(address, options)) return;
  fail(ErrorCode::kFailedPrecondition,
       "boundary '{}': {} is within reach of other machines, and whoever reaches it could take the "
       "place of another part: give all parts the same token (--token-file)",
       binding.name, address.text());
}

// Once for each address.
void warn_of_open_door(const SocketAddress& address, const TransportOptions& options) {
  constexpr std::size_t kMostRemembered = 1024;
  if (!is_open_door(address, options)) return;
  static std::mutex mutex;
  static std::set<std::string> warned;
  const std::lock_guard lock(mutex);
  if (warned.size() >= kMostRemembered || !warned.insert(address.text()).second) return;
  log_warn("transport",
           "{} listens without a token: whoever reaches it can take the place of another part; "
           "give all parts the same token (--token-file)",
           address.text());
}

TransportPtr start_connecting(const RemoteBinding& binding, const TransportOptions& options,
                              Route route) {
  auto transport = std::make_unique<SessionTransport>(binding, options, std::move(route));
  (void)transport->start();
  return transport;
}

std::vector<SocketAddress> addresses_of(const RemoteBinding& binding) {
  try {
    return resolve(binding.host, binding.port);
  } catch (const Error&) {
    // A name that is not known yet may be once the other end is up; this end connects then.
    if (binding.listen.value_or(false)) throw;
    return {};
  }
}

}  // namespace

TransportPtr listen_or_connect(const SocketAddress& address, bool must_listen,
                               const RemoteBinding& binding, const TransportOptions& options,
                               Route route) {
  refuse_open_door(address, binding, options);
  if (ListenerPtr listener = route.open_listener(address, options)) {
    Route listening = route;
    RemoteBinding bound = binding;
    if (binding.port == 0) bound.port = listener->address().port();
    warn_of_open_door(listener->address(), options);
    listening.listener = std::move(listener);
    auto transport = std::make_unique<SessionTransport>(bound, options, std::move(listening));
    if (transport->start()) return transport;
  }
  if (must_listen) {
    fail(
        ErrorCode::kAlreadyExists,
        "boundary '{}': cannot listen at {}, which another program or the same boundary has taken; "
        "choose another port",
        binding.name, address.text());
  }
  return start_connecting(binding, options, std::move(route));
}

TransportPtr make_between_hosts(const RemoteBinding& binding, const TransportOptions& options,
                                Route route) {
  route.silence_limit = kSilentBeats * options.heartbeat;
  if (!binding.listen.value_or(true)) {
    return start_connecting(binding, options, std::move(route));
  }
  const std::vector<SocketAddress> addresses = addresses_of(binding);
  std::optional<Error> last;
  for (const SocketAddress& address : addresses) {
    if (!address.is_local()) continue;
    try {
      return listen_or_connect(address, binding.listen.has_value(), binding, options, route);
    } catch (const Error& error) {
      // A name may have addresses of a family that this machine does not use.
      if (error.code() != ErrorCode::kUnavailable) throw;
      last = error;
    }
  }
  if (last) throw *last;
  if (binding.listen.has_value()) {
    // Told to listen at an address that is not ours: the name leads here from outside (NAT).
    return listen_or_connect(SocketAddress::any(addresses.front()), true, binding, options,
                             std::move(route));
  }
  return start_connecting(binding, options, std::move(route));
}

}  // namespace harmonics::inline in_transport
