// Sockets of the operating system: addresses, connections, waiting. Linux.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/descriptor.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_transport {

/// Wakes a thread that waits on descriptors. Once signalled it stays so until cleared. Thread safe.
class WakeEvent {
 public:
  WakeEvent();
  void signal();
  void clear();
  [[nodiscard]] int fd() const { return event_.get(); }

 private:
  Descriptor event_;
};

/// An address of family AF_INET, AF_INET6 or AF_UNIX (abstract). A value.
class SocketAddress {
 public:
  SocketAddress(const sockaddr* address, socklen_t length);
  /// A socket in the abstract name space of this host; at most 100 bytes.
  [[nodiscard]] static SocketAddress local(const std::string& name);
  /// Every address of this host, in the family of `like`.
  [[nodiscard]] static SocketAddress any(const SocketAddress& like);

  [[nodiscard]] int family() const { return storage_.ss_family; }
  [[nodiscard]] const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  [[nodiscard]] socklen_t length() const { return length_; }
  /// "127.0.0.1:9000", "[::1]:9000", "@name".
  [[nodiscard]] std::string text() const;
  /// 0 for AF_UNIX.
  [[nodiscard]] std::uint16_t port() const;
  /// The same address with another port.
  [[nodiscard]] SocketAddress with_port(std::uint16_t port) const;
  /// Whether only this machine can reach it.
  [[nodiscard]] bool is_loopback() const;
  /// Whether it is an address of this machine: loopback, or of one of its interfaces.
  [[nodiscard]] bool is_local() const;

 private:
  [[nodiscard]] bool same_host(const sockaddr* other) const;

  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

/// The addresses of `host`, aliases first (hosts.h); one that no one knows is an Error (kNotFound).
[[nodiscard]] std::vector<SocketAddress> resolve(const std::string& host, std::uint16_t port);

/// A socket that listens; nothing when another one listens there. Other failures are Errors.
[[nodiscard]] std::optional<Descriptor> listen_on(const SocketAddress& address);
/// The address that a listening socket really has (its port when it asked for any).
[[nodiscard]] SocketAddress bound_address(const Descriptor& socket);
/// The next connection, or an invalid descriptor when there is none. Non-blocking, its peer's
/// address in `from`.
[[nodiscard]] Descriptor accept_from(const Descriptor& listening, std::string& from);
/// Connects; kUnavailable when refused or unreachable, kDeadlineExceeded, kCancelled when `cancel`
/// was signalled.
[[nodiscard]] Descriptor connect_to(const SocketAddress& address, Deadline deadline,
                                    const WakeEvent& cancel);

/// Waits until `fd` has one of the poll `events` (true), or the deadline passes (false). A
/// signalled `cancel` (may be null) is an Error (kCancelled).
bool wait_for(int fd, short events, Deadline deadline, const WakeEvent* cancel);

/// Milliseconds for poll: rounded up, never negative.
[[nodiscard]] int poll_timeout(Deadline deadline);

}  // namespace harmonics::inline in_transport
