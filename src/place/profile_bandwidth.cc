#include <harmonics/place/profile_bandwidth.h>

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/base/number_text.h>
#include <harmonics/place/profile_machine.h>

namespace harmonics::inline in_place {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

/// What a network is taken to do when neither the user nor the machine says anything.
constexpr double kFallbackMbps = 1000;
constexpr std::string_view kRequestMark = "harm-bw1";
constexpr std::string_view kAnswerMark = "harm-ok1";
constexpr std::size_t kRequestBytes = 16;
constexpr char kUpload = 'u';
constexpr char kDownload = 'd';
constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
constexpr std::uint32_t kFirstBytes = std::uint32_t{1} << 20;
constexpr std::uint32_t kGrowth = 4;
/// A block that takes this long tells the bandwidth; shorter ones are mostly start-up.
constexpr double kLongEnough_s = 0.25;
constexpr double kBitsPerMegabit = 1024.0 * 1024.0;

/// A connected socket with a peer's name and a deadline for everything that happens on it.
class Connection {
 public:
  Connection(Descriptor socket, std::string peer, SteadyTime deadline)
      : socket_(std::move(socket)), peer_(std::move(peer)), deadline_(deadline) {}

  [[nodiscard]] const std::string& peer() const { return peer_; }
  [[nodiscard]] int fd() const { return socket_.get(); }

  void wait(short events) const {
    using std::chrono::milliseconds;
    for (;;) {
      const auto left =
          std::chrono::ceil<milliseconds>(deadline_ - std::chrono::steady_clock::now());
      if (left.count() <= 0) {
        fail(ErrorCode::kDeadlineExceeded, "'{}' did not keep up within the deadline", peer_);
      }
      pollfd entry{fd(), events, 0};
      const int ready = ::poll(
          &entry, 1,
          static_cast<int>(std::min<std::int64_t>(left.count(), std::numeric_limits<int>::max())));
      if (ready > 0) return;
      if (ready < 0 && errno != EINTR) fail_errno(errno, "waiting for '" + peer_ + "'");
    }
  }

  void send_all(const char* data, std::size_t size) const {
    while (size > 0) {
      wait(POLLOUT);
      const ssize_t sent = ::send(fd(), data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (sent < 0) fail_errno(errno, "sending to '" + peer_ + "'");
      data += sent;
      size -= static_cast<std::size_t>(sent);
    }
  }

  /// The bytes that came, at most `size`; 0 when the peer has closed.
  std::size_t receive_some(char* data, std::size_t size) const {
    for (;;) {
      wait(POLLIN);
      const ssize_t got = ::recv(fd(), data, size, MSG_DONTWAIT);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EAGAIN && errno != EINTR) fail_errno(errno, "receiving from '" + peer_ + "'");
    }
  }

  /// False when the peer has closed before the first byte.
  bool receive_all(char* data, std::size_t size) const {
    for (std::size_t got = 0; got < size;) {
      const std::size_t now = receive_some(data + got, size - got);
      if (now == 0 && got == 0) return false;
      if (now == 0) fail(ErrorCode::kUnavailable, "'{}' closed in the middle of a message", peer_);
      got += now;
    }
    return true;
  }

 private:
  const Descriptor socket_;
  const std::string peer_;
  const SteadyTime deadline_;
};

void send_block(const Connection& connection, std::uint32_t bytes) {
  const std::vector<char> block(std::min<std::size_t>(kBlockBytes, bytes));
  for (std::size_t left = bytes; left > 0;) {
    const std::size_t now = std::min(left, block.size());
    connection.send_all(block.data(), now);
    left -= now;
  }
}

void drop_block(const Connection& connection, std::uint32_t bytes) {
  std::vector<char> block(std::min<std::size_t>(kBlockBytes, bytes));
  for (std::size_t left = bytes; left > 0;) {
    const std::size_t now = connection.receive_some(block.data(), std::min(left, block.size()));
    if (now == 0) {
      fail(ErrorCode::kUnavailable, "'{}' closed with {} bytes to come", connection.peer(), left);
    }
    left -= now;
  }
}

using Request = std::array<char, kRequestBytes>;

Request make_request(char direction, std::uint32_t bytes) {
  Request request{};
  std::ranges::copy(kRequestMark, request.begin());
  request[8] = direction;
  for (int i = 0; i < 4; ++i) request[12 + i] = static_cast<char>(bytes >> (8 * i));
  return request;
}

// The number of bytes that a request asks for; nothing when it is no request.
std::optional<std::uint32_t> bytes_of(const Request& request) {
  std::uint32_t bytes = 0;
  for (int i = 0; i < 4; ++i) {
    bytes |= static_cast<std::uint32_t>(static_cast<unsigned char>(request[12 + i])) << (8 * i);
  }
  const bool known = request[8] == kUpload || request[8] == kDownload;
  if (!known || bytes == 0 || bytes > kMaxBandwidthBytes) return std::nullopt;
  return request == make_request(request[8], bytes) ? std::optional(bytes) : std::nullopt;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolve(const HostPort& where, bool listening) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = listening ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(where.host.empty() ? nullptr : where.host.c_str(),
                                   std::to_string(where.port).c_str(), &hints, &found);
  if (failed != 0) {
    fail(ErrorCode::kNotFound, "host '{}' is unknown: {}", where.host, ::gai_strerror(failed));
  }
  return {found, &::freeaddrinfo};
}

std::string text_of(const sockaddr_storage& address, socklen_t length) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  const int failed =
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host.data(), host.size(),
                    port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  return failed != 0 ? "a client" : format("{}:{}", host.data(), port.data());
}

Descriptor listen_at(const HostPort& where) {
  const Addresses addresses = resolve(where, true);
  int reason = EADDRNOTAVAIL;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    Descriptor made(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    if (!made) continue;
    const int on = 1;
    ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (::bind(made.get(), at->ai_addr, at->ai_addrlen) == 0 && ::listen(made.get(), 1) == 0) {
      return made;
    }
    reason = errno;
  }
  fail_errno(reason, format("cannot listen on port {} of '{}'", where.port,
                            where.host.empty() ? "this machine" : where.host));
}

// Seconds from the first byte to the proof that the last one has arrived.
double timed_transfer(const Connection& connection, const Clock& clock, char direction,
                      std::uint32_t bytes) {
  const Request request = make_request(direction, bytes);
  const Nanoseconds start = clock.now();
  connection.send_all(request.data(), request.size());
  if (direction == kUpload) {
    send_block(connection, bytes);
    std::array<char, kAnswerMark.size()> answer{};
    if (!connection.receive_all(answer.data(), answer.size()) ||
        std::string_view(answer.data(), answer.size()) != kAnswerMark) {
      fail(ErrorCode::kUnavailable, "'{}' does not answer like 'harmonics profile --serve'",
           connection.peer());
    }
  } else {
    drop_block(connection, bytes);
  }
  return in_seconds(clock.now() - start);
}

double megabits_per_second(const Connection& connection, const Clock& clock, char direction) {
  for (std::uint32_t bytes = kFirstBytes;; bytes *= kGrowth) {
    const double seconds = std::max(1e-9, timed_transfer(connection, clock, direction, bytes));
    if (seconds >= kLongEnough_s || bytes >= kMaxBandwidthBytes) {
      return static_cast<double>(bytes) * 8 / kBitsPerMegabit / seconds;
    }
  }
}

std::unique_ptr<Connection> connect_to(const HostPort& peer, SteadyTime deadline) {
  const std::string name = format("{}:{}", peer.host, peer.port);
  const Addresses addresses = resolve(peer, false);
  int reason = ECONNREFUSED;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    Descriptor made(
        ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol));
    if (!made) continue;
    auto connection = std::make_unique<Connection>(std::move(made), name, deadline);
    if (::connect(connection->fd(), at->ai_addr, at->ai_addrlen) != 0 && errno != EINPROGRESS) {
      reason = errno;
      continue;
    }
    connection->wait(POLLOUT);
    int failed = 0;
    socklen_t size = sizeof(failed);
    ::getsockopt(connection->fd(), SOL_SOCKET, SO_ERROR, &failed, &size);
    if (failed == 0) return connection;
    reason = failed;
  }
  fail(ErrorCode::kUnavailable,
       "nobody answers at '{}' ({}): start 'harmonics profile --serve {}' there", name,
       std::strerror(reason), peer.port);
}

}  // namespace

HostPort parse_host_port(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  HostPort parsed;
  if (colon != std::string::npos) parsed.host = text.substr(0, colon);
  const auto port =
      number_from<std::uint16_t>(text.substr(colon == std::string::npos ? 0 : colon + 1));
  if (!port || colon == 0) {
    fail(ErrorCode::kInvalidArgument, "'{}' is not of the form HOST:PORT or PORT", text);
  }
  parsed.port = *port;
  if (parsed.host.starts_with('[') && parsed.host.ends_with(']')) {  // an IPv6 address
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  }
  return parsed;
}

BandwidthServer::BandwidthServer(const HostPort& where, std::chrono::milliseconds deadline)
    : socket_(listen_at(where)), deadline_(deadline) {}

std::uint16_t BandwidthServer::port() const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    fail_errno(errno, "asking for the port that was taken");
  }
  const std::string text = text_of(address, length);
  return parse_host_port(text).port;
}

void BandwidthServer::serve_one() {
  sockaddr_storage address{};
  socklen_t length = 0;
  Descriptor client;
  while (!client) {
    length = sizeof(address);
    client.reset(
        ::accept4(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length, SOCK_CLOEXEC));
    if (!client && errno != EINTR && errno != ECONNABORTED) {
      fail_errno(errno, "waiting for a client");
    }
  }
  const Connection connection(std::move(client), text_of(address, length),
                              std::chrono::steady_clock::now() + deadline_);
  for (int i = 0; i < kMaxBandwidthRequests; ++i) {
    Request request{};
    if (!connection.receive_all(request.data(), request.size())) return;
    const std::optional<std::uint32_t> bytes = bytes_of(request);
    if (!bytes) {
      fail(ErrorCode::kInvalidArgument,
           "'{}' asked for something else than a measurement of at most {} bytes",
           connection.peer(), kMaxBandwidthBytes);
    }
    if (request[8] == kUpload) {
      drop_block(connection, *bytes);
      connection.send_all(kAnswerMark.data(), kAnswerMark.size());
    } else {
      send_block(connection, *bytes);
    }
  }
}

double measure_bandwidth_mbps(const HostPort& peer, const Clock& clock,
                              std::chrono::milliseconds deadline) {
  const auto connection = connect_to(peer, std::chrono::steady_clock::now() + deadline);
  return std::min(megabits_per_second(*connection, clock, kUpload),
                  megabits_per_second(*connection, clock, kDownload));
}

FoundBandwidth find_bandwidth(double given_mbps, const std::string& peer,
                              std::optional<double> on_file, const Clock& clock) {
  if (given_mbps > 0) return {given_mbps, "given"};
  if (!peer.empty()) {
    const double measured = measure_bandwidth_mbps(parse_host_port(peer), clock);
    return {std::max(1.0, std::floor(measured)), "measured to " + peer};
  }
  if (on_file) return {*on_file, "as on file"};
  if (const auto speed = interface_speed_mbps()) return {*speed, "as the network interface says"};
  log_warn("place",
           "the network's bandwidth is not known, {} Mbps are assumed: give --bw-mbps or "
           "measure it with --peer",
           kFallbackMbps);
  return {kFallbackMbps, "assumed"};
}

}  // namespace harmonics::inline in_place
