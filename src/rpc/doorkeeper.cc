#include "doorkeeper.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_rpc {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kBacklog = 1024;
/// Between two lines of the log about the same thing.
constexpr std::chrono::seconds kLogPeriod(60);
/// After a failure to accept that only time can mend.
constexpr milliseconds kPause(100);

std::string host_text(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return format("ipv4:{}", text.data());
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    ::inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text.data(), text.size());
    return format("ipv4:{}", text.data());
  }
  ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  return format("ipv6:%5B{}%5D", text.data());
}

/// As gRPC names a peer: "ipv4:127.0.0.1:43210".
std::string peer_text(const sockaddr_storage& address) {
  const std::uint16_t port = address.ss_family == AF_INET
                                 ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                                 : reinterpret_cast<const sockaddr_in6&>(address).sin6_port;
  return format("{}:{}", host_text(address), ntohs(port));
}

/// None where that cannot be; errno says why.
Descriptor bound_socket(const sockaddr* address, socklen_t size, int family) {
  Descriptor made(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made) return made;
  const int yes = 1;
  const int no = 0;
  ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  const bool any = family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
  if (family == AF_INET6) {
    ::setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, any ? &no : &yes, sizeof yes);
  }
  if (::bind(made.get(), address, size) != 0 || ::listen(made.get(), kBacklog) != 0) made.reset();
  return made;
}

int port_of(const Descriptor& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                   : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

/// Sockets on every address that the host of "HOST:PORT" has; all on one port.
std::vector<Descriptor> bound_sockets(const std::string& address, int& port) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  if (host == "0.0.0.0") host = "::";  // every address, of both kinds
  port = std::stoi(address.substr(colon + 1));
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int trouble = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> places(found, ::freeaddrinfo);
  std::vector<Descriptor> sockets;
  for (addrinfo* place = trouble == 0 ? found : nullptr; place != nullptr; place = place->ai_next) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(place->ai_addr);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(place->ai_addr);
    (place->ai_family == AF_INET ? v4->sin_port : v6->sin6_port) =
        htons(static_cast<std::uint16_t>(port));
    Descriptor made = bound_socket(place->ai_addr, place->ai_addrlen, place->ai_family);
    if (!made && errno == EADDRINUSE && sockets.empty()) break;
    if (!made) continue;
    if (port == 0) port = port_of(made);
    sockets.push_back(std::move(made));
  }
  if (sockets.empty() && host == "::") {  // a machine without the newer kind
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(static_cast<std::uint16_t>(port));
    Descriptor made = bound_socket(reinterpret_cast<sockaddr*>(&any), sizeof any, AF_INET);
    if (made && port == 0) port = port_of(made);
    if (made) sockets.push_back(std::move(made));
  }
  return sockets;
}

}  // namespace

struct Doorkeeper::Parts {
  struct Stranger {
    std::string peer;
    Descriptor own;  ///< Of the same socket, by which it can be cut.
    Steady::time_point until;
  };

  std::vector<Descriptor> sockets;
  Descriptor wake;
  int port = 0;
  std::uint64_t descriptors = 0;
  std::uint64_t max_strangers = kMaxStrangers;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::thread thread;

  std::mutex mutex;
  std::list<Stranger> strangers;  ///< The oldest first.
  Steady::time_point said_full{};
  Steady::time_point said_crowd{};

  static bool due(Steady::time_point& said) {
    const auto now = Steady::now();
    if (said != Steady::time_point{} && now - said < kLogPeriod) return false;
    said = now;
    return true;
  }

  // Under `mutex`.
  void cut(std::list<Stranger>::iterator one) {
    ::shutdown(one->own.get(), SHUT_RDWR);
    strangers.erase(one);
  }

  void let_in(int listening, Descriptor socket, const sockaddr_storage& address) {
    // The lowest free number was taken, so at least as many are open.
    if (static_cast<std::uint64_t>(socket.get()) + kOwnDescriptors >= descriptors) {
      socket.reset();
      turned_away();
      return;
    }
    const int yes = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    {
      const std::lock_guard lock(mutex);
      if (strangers.size() >= max_strangers) {
        if (due(said_crowd)) {
          log_warn("rpc", "{} connections have shown no token yet: the oldest are cut",
                   strangers.size());
        }
        cut(strangers.begin());
      }
      Descriptor own(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
      if (own) {
        strangers.push_back(
            {peer_text(address), std::move(own), Steady::now() + kStrangerPatience});
      }
    }
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listening;
    parameters.fd = socket.release();
    acceptor->HandleNewConnection(&parameters);
  }

  void turned_away() {
    const std::lock_guard lock(mutex);
    if (!due(said_full)) return;
    log_warn("rpc",
             "the ceiling of {} open files is reached: connections are turned away until others "
             "end; raise it with LimitNOFILE in the unit, or ulimit -n",
             descriptors);
  }

  void accept_all(int listening) {
    while (true) {
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      Descriptor socket(::accept4(listening, reinterpret_cast<sockaddr*>(&address), &size,
                                  SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (socket) {
        let_in(listening, std::move(socket), address);
        continue;
      }
      if (errno == EMFILE || errno == ENFILE) {
        turned_away();
        pollfd nothing{wake.get(), POLLIN, 0};
        ::poll(&nothing, 1, static_cast<int>(kPause.count()));
      }
      if (errno != EINTR && errno != ECONNABORTED) return;
    }
  }

  /// Cuts those whose time is over; milliseconds until the next one's is, -1: there is none.
  int cut_late() {
    const std::lock_guard lock(mutex);
    const auto now = Steady::now();
    while (!strangers.empty() && strangers.front().until <= now) cut(strangers.begin());
    if (strangers.empty()) return -1;
    const auto left = std::chrono::ceil<milliseconds>(strangers.front().until - now);
    return static_cast<int>(left.count());
  }

  void run() {
    std::vector<pollfd> watched;
    for (const Descriptor& socket : sockets) watched.push_back({socket.get(), POLLIN, 0});
    watched.push_back({wake.get(), POLLIN, 0});
    while (true) {
      const int found = ::poll(watched.data(), watched.size(), cut_late());
      if (watched.back().revents != 0) return;
      for (const pollfd& one : watched) {
        if (found > 0 && one.revents != 0) accept_all(one.fd);
      }
    }
  }
};

Doorkeeper::Doorkeeper(const std::string& address, std::uint64_t descriptors)
    : parts_(std::make_unique<Parts>()) {
  parts_->descriptors = descriptors;
  parts_->max_strangers =
      std::clamp<std::uint64_t>(descriptors / kShareOfStrangers, 1, kMaxStrangers);
  parts_->wake.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  parts_->sockets = bound_sockets(address, parts_->port);
  if (parts_->sockets.empty()) {
    fail(ErrorCode::kUnavailable,
         "cannot listen on {}: is another server running there? choose another --port", address);
  }
}

Doorkeeper::~Doorkeeper() { close(); }

int Doorkeeper::port() const { return parts_->port; }

void Doorkeeper::open(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor) {
  parts_->acceptor = std::move(acceptor);
  parts_->thread = std::thread([this] { parts_->run(); });
}

void Doorkeeper::welcome(const std::string& peer) {
  const std::lock_guard lock(parts_->mutex);
  std::list<Parts::Stranger>& strangers = parts_->strangers;
  const auto port = peer.substr(std::min(peer.rfind(':'), peer.size()));
  auto found = strangers.end();
  for (auto one = strangers.begin(); one != strangers.end(); ++one) {
    if (one->peer == peer) {
      found = one;
      break;
    }
    // However an address is spelt, its port is a port.
    if (found == strangers.end() && one->peer.ends_with(port)) found = one;
  }
  if (found == strangers.end()) return;
  strangers.erase(found);
}

void Doorkeeper::close() {
  if (!parts_->thread.joinable()) return;
  const std::uint64_t one = 1;
  static_cast<void>(::write(parts_->wake.get(), &one, sizeof one));
  parts_->thread.join();
  // gRPC ends the connections that it has; these would keep them open.
  const std::lock_guard lock(parts_->mutex);
  while (!parts_->strangers.empty()) parts_->cut(parts_->strangers.begin());
}

}  // namespace harmonics::inline in_rpc
