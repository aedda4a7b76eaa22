// A listening socket and the ends behind it: boundaries share a port and are told apart by name.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "greet.h"
#include "socket.h"
#include "tls.h"

namespace harmonics {

/// The most connections that may be in the middle of their greeting at one listener; more are
/// closed at once.
inline constexpr std::size_t kMaxGreetings = 16;

/// One per address and process. Accepts on a thread of its own and greets each connection on
/// another one, so that a silent stranger holds up nobody. Thread safe.
class Listener {
 public:
  /// The listener at that address, shared with whoever in this process listens there already;
  /// nothing when another process does. `tls` must be the same for all that share it.
  [[nodiscard]] static std::shared_ptr<Listener> open(const SocketAddress& address,
                                                      const TlsOptions& tls,
                                                      Nanoseconds handshake_timeout);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// False when a boundary of that name is there already.
  [[nodiscard]] bool add(const std::string& boundary, Greeter& greeter);
  /// Returns when no greeting uses the greeter any more.
  void remove(const std::string& boundary);
  [[nodiscard]] const SocketAddress& address() const { return address_; }

 private:
  struct Visit;
  Listener(Descriptor socket, const TlsOptions& tls, Nanoseconds handshake_timeout);

  void accept_all();
  void admit(Descriptor socket, std::string peer);
  void greet(Visit& visit, Descriptor socket);
  void greet_stream(Visit& visit, Descriptor socket);
  void reap();

  const Descriptor socket_;
  const SocketAddress address_;
  const TlsOptions tls_;
  const std::unique_ptr<TlsContext> context_;
  const Nanoseconds handshake_timeout_;

  std::mutex mutex_;
  std::condition_variable left_;
  std::map<std::string, Greeter*> boundaries_;
  std::vector<std::unique_ptr<Visit>> visits_;
  WakeEvent stop_;
  std::thread thread_;
};

}  // namespace harmonics
