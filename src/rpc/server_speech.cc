#include "server_speech.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

#include <harmonics/base/descriptor.h>

namespace harmonics::inline in_rpc {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A ClientHello of TLS 1.2 that offers what the certificates of 'server --init' need: ECDHE with
// P-256, AES-128-GCM, HTTP/2. It is never followed by anything.
constexpr auto kClientHello =
    std::to_array<unsigned char>({
        0x16, 0x03, 0x01, 0x00, 0x52,  // a handshake record, 82 bytes
        0x01, 0x00, 0x00, 0x4e,        // ClientHello, 78 bytes
        0x03, 0x03,                    // TLS 1.2
        'h',  'a',  'r',  'm',  'o',  'n',  'i',  'c',  's',  ' ',  'a',
        's',  'k',  's',  ' ',  'w',  'h',  'a',  't',  ' ',  'i',  's',
        ' ',  's',  'p',  'o',  'k',  'e',  'n',  ' ',  ' ',  ' ',   // 32 bytes of chance
        0x00,                                                        // no session
        0x00, 0x04, 0xc0, 0x2b, 0xc0, 0x2f,                          // cipher suites
        0x01, 0x00,                                                  // no compression
        0x00, 0x21,                                                  // extensions, 33 bytes
        0x00, 0x0a, 0x00, 0x04, 0x00, 0x02, 0x00, 0x17,              // groups: P-256
        0x00, 0x0b, 0x00, 0x02, 0x01, 0x00,                          // points: uncompressed
        0x00, 0x0d, 0x00, 0x06, 0x00, 0x04, 0x04, 0x03, 0x08, 0x04,  // signatures
        0x00, 0x10, 0x00, 0x05, 0x00, 0x03, 0x02, 'h',  '2',         // HTTP/2
    });
constexpr unsigned char kHandshakeRecord = 0x16;
constexpr unsigned char kAlertRecord = 0x15;

bool ready(int descriptor, short what, Steady::time_point end) {
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(end - Steady::now());
    if (left <= milliseconds(0)) return false;
    pollfd wanted{descriptor, what, 0};
    const int found = ::poll(&wanted, 1, static_cast<int>(left.count()));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
  }
}

bool connected(int descriptor, const addrinfo& place, Steady::time_point end) {
  if (::connect(descriptor, place.ai_addr, place.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS || !ready(descriptor, POLLOUT, end)) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

Speech ask(const addrinfo& place, Steady::time_point end) {
  const Descriptor socket(::socket(place.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket || !connected(socket.get(), place, end)) return Speech::kNothing;
  const ssize_t sent = ::send(socket.get(), kClientHello.data(), kClientHello.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(kClientHello.size())) return Speech::kNothing;
  if (!ready(socket.get(), POLLIN, end)) return Speech::kNothing;
  unsigned char first = 0;
  const ssize_t got = ::recv(socket.get(), &first, 1, 0);
  const bool tls = got == 1 && (first == kHandshakeRecord || first == kAlertRecord);
  return tls ? Speech::kTls : Speech::kPlain;
}

}  // namespace

Speech speech_of(const std::string& address, milliseconds patience) {
  const auto end = Steady::now() + patience;
  const std::size_t colon = address.rfind(':');
  if (colon == address.npos) return Speech::kNothing;
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &wanted, &found) != 0) {
    return Speech::kNothing;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> places(found, ::freeaddrinfo);
  for (const addrinfo* place = found; place != nullptr; place = place->ai_next) {
    const Speech speech = ask(*place, end);
    if (speech != Speech::kNothing) return speech;
  }
  return Speech::kNothing;
}

}  // namespace harmonics::inline in_rpc
