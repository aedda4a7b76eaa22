// How one kind of transport finds its other end.
#pragma once

#include <functional>

#include "greet.h"
#include "listener.h"

namespace harmonics::inline in_transport {

struct Route {
  /// Where this end listens; null at the connecting end.
  ListenerPtr listener;
  /// The listener at an address of this machine; null when another process has the address.
  std::function<ListenerPtr(const SocketAddress&, const TransportOptions&)> open_listener;
  /// The connecting end: a fresh connection to the other one, or an Error.
  std::function<StreamPtr(Deadline, const WakeEvent& cancel)> connect;
  ConnectionMaker make_connection;
  /// Whether a connection can break while both ends live. If not, a broken one is a dead peer.
  bool may_reconnect = true;
  /// A connection that is silent this long counts as cut; zero: never.
  Nanoseconds silence_limit{0};
};

}  // namespace harmonics::inline in_transport
