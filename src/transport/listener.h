// What accepts connections at an address and hands them to its reception.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "reception.h"
#include "socket.h"

namespace harmonics::inline in_transport {

/// One per kind of transport, address and process. Thread safe. A kind derives from it and stops
/// accepting in its destructor.
class Listener {
 public:
  virtual ~Listener() = default;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] Reception& reception() { return reception_; }
  [[nodiscard]] const SocketAddress& address() const { return address_; }
  [[nodiscard]] const TlsOptions& tls() const { return tls_; }

 protected:
  Listener(SocketAddress address, TlsOptions tls, Nanoseconds handshake_timeout)
      : address_(std::move(address)),
        tls_(std::move(tls)),
        reception_(address_.text(), handshake_timeout) {}

 private:
  const SocketAddress address_;
  const TlsOptions tls_;
  Reception reception_;
};

using ListenerPtr = std::shared_ptr<Listener>;

/// The listener of that kind at that address, shared with whoever in this process listens there
/// already, else what `make` makes: nothing when another process has the address. The TLS options
/// must be the same for all that share it (kInvalidArgument).
[[nodiscard]] ListenerPtr shared_listener(std::string_view kind, const SocketAddress& address,
                                          const TlsOptions& tls,
                                          const std::function<ListenerPtr()>& make);

/// A listener on a plain socket, TLS on it if the options say so.
[[nodiscard]] ListenerPtr open_socket_listener(const SocketAddress& address,
                                               const TransportOptions& options);

}  // namespace harmonics::inline in_transport
