#include "socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

#include <harmonics/base/error.h>

namespace harmonics::inline in_transport {
namespace {

constexpr int kBacklog = 128;
constexpr std::size_t kMaxLocalName = 100;

void set_option(const Descriptor& socket, int level, int name, int value) {
  // Failure costs speed, not correctness.
  (void)::setsockopt(socket.get(), level, name, &value, sizeof(value));
}

Descriptor open_socket(int family) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) fail_errno(errno, "cannot open a socket");
  return socket;
}

// Inside one machine there is no distance to fill with bytes: what waits in the kernel should stay
// in the cache. Between machines the kernel finds the right size by itself.
constexpr int kLocalSendBuffer = 2048 << 10;

void tune(const Descriptor& socket, const SocketAddress& peer) {
  if (peer.family() == AF_UNIX) return;
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  if (peer.is_local()) set_option(socket, SOL_SOCKET, SO_SNDBUF, kLocalSendBuffer);
}

}  // namespace

WakeEvent::WakeEvent() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) fail_errno(errno, "cannot make an event descriptor");
}

void WakeEvent::signal() {
  const std::uint64_t one = 1;
  (void)!::write(event_.get(), &one, sizeof(one));
}

void WakeEvent::clear() {
  std::uint64_t count = 0;
  (void)!::read(event_.get(), &count, sizeof(count));
}

SocketAddress::SocketAddress(const sockaddr* address, socklen_t length) : length_(length) {
  std::memcpy(&storage_, address, std::min<std::size_t>(length, sizeof(storage_)));
}

SocketAddress SocketAddress::local(const std::string& name) {
  if (name.size() > kMaxLocalName) {
    fail(ErrorCode::kInvalidArgument, "a local socket name of {} bytes, at most {}", name.size(),
         kMaxLocalName);
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A first byte of zero puts the name into the abstract name space: nothing stays on disk.
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return {reinterpret_cast<const sockaddr*>(&address),
          static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

SocketAddress SocketAddress::any(const SocketAddress& like) {
  SocketAddress out = like;
  if (like.family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&out.storage_)->sin6_addr = in6addr_any;
  } else if (like.family() == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&out.storage_)->sin_addr.s_addr = htonl(INADDR_ANY);
  }
  return out;
}

std::string SocketAddress::text() const {
  char host[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(&storage_);
    ::inet_ntop(AF_INET, &address->sin_addr, host, sizeof(host));
    return format("{}:{}", host, port());
  }
  if (family() == AF_INET6) {
    const auto* address = reinterpret_cast<const sockaddr_in6*>(&storage_);
    ::inet_ntop(AF_INET6, &address->sin6_addr, host, sizeof(host));
    return format("[{}]:{}", host, port());
  }
  const auto* address = reinterpret_cast<const sockaddr_un*>(&storage_);
  const std::size_t head = offsetof(sockaddr_un, sun_path) + 1;
  if (length_ <= head) return "this host";
  return format("@{}", std::string_view(address->sun_path + 1, length_ - head));
}

std::uint16_t SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
  if (family() == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
  }
  return 0;
}

SocketAddress SocketAddress::with_port(std::uint16_t port) const {
  SocketAddress out = *this;
  if (family() == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&out.storage_)->sin_port = htons(port);
  } else if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&out.storage_)->sin6_port = htons(port);
  }
  return out;
}

bool SocketAddress::same_host(const sockaddr* other) const {
  if (other == nullptr || other->sa_family != family()) return false;
  if (family() == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(other)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr.s_addr;
  }
  return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(other)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr,
                     sizeof(in6_addr)) == 0;
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_UNIX) return true;
  if (family() == AF_INET) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(&storage_);
    return ntohl(address->sin_addr.s_addr) >> 24 == 127;
  }
  const auto* address = reinterpret_cast<const sockaddr_in6*>(&storage_);
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address->sin6_addr);
}

bool SocketAddress::is_local() const {
  if (is_loopback()) return true;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (same_host(one->ifa_addr)) return true;
  }
  return false;
}

std::optional<Descriptor> listen_on(const SocketAddress& address) {
  Descriptor socket = open_socket(address.family());
  if (address.family() != AF_UNIX) set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  // Two sockets may both pass bind before either listens: both calls can find the place taken.
  if (::bind(socket.get(), address.raw(), address.length()) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    if (errno == EADDRINUSE) return std::nullopt;
    fail_errno(errno, format("cannot listen on {}", address.text()));
  }
  return socket;
}

SocketAddress bound_address(const Descriptor& socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    fail_errno(errno, "cannot read the address of a socket");
  }
  return {reinterpret_cast<const sockaddr*>(&storage), length};
}

Descriptor accept_from(const Descriptor& listening, std::string& from) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  Descriptor socket(::accept4(listening.get(), reinterpret_cast<sockaddr*>(&storage), &length,
                              SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return socket;
  const SocketAddress peer(reinterpret_cast<const sockaddr*>(&storage), length);
  from = peer.text();
  tune(socket, peer);
  return socket;
}

Descriptor connect_to(const SocketAddress& address, Deadline deadline, const WakeEvent& cancel) {
  Descriptor socket = open_socket(address.family());
  tune(socket, address);
  if (::connect(socket.get(), address.raw(), address.length()) != 0) {
    // A full backlog of a local socket says "again" instead of "in progress".
    if (errno != EINPROGRESS) {
      fail(ErrorCode::kUnavailable, "cannot connect to {}: {}", address.text(),
           std::strerror(errno));
    }
    if (!wait_for(socket.get(), POLLOUT, deadline, &cancel)) {
      fail(ErrorCode::kDeadlineExceeded, "cannot connect to {}: no answer", address.text());
    }
    int error = 0;
    socklen_t length = sizeof(error);
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
      fail(ErrorCode::kUnavailable, "cannot connect to {}: {}", address.text(),
           std::strerror(error));
    }
  }
  return socket;
}

int poll_timeout(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000'000));
}

bool wait_for(int fd, short events, Deadline deadline, const WakeEvent* cancel) {
  for (;;) {
    pollfd watched[2] = {{fd, events, 0}, {cancel != nullptr ? cancel->fd() : -1, POLLIN, 0}};
    const int count = ::poll(watched, 2, poll_timeout(deadline));
    if (count < 0 && errno != EINTR) fail_errno(errno, "cannot wait for a socket");
    if (count > 0 && watched[1].revents != 0) fail(ErrorCode::kCancelled, "the wait was cancelled");
    if (count > 0) return true;
    if (count == 0 && std::chrono::steady_clock::now() >= deadline) return false;
  }
}

}  // namespace harmonics::inline in_transport
