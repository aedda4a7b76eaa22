// A framed socket loop as one would write it by hand for speed: two blocking sockets on loopback,
// one reused buffer, CRC32C of every 256 KB chunk computed while it is in the cache. No sessions,
// no credits, no reconnecting, no other thread. On an idle 2-core machine without CRC such a loop
// was measured at 2.6 to 2.8 GB/s for 1 MB and 1.1 to 1.9 GB/s for 64 MB messages.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include <harmonics/transport/crc32c.h>

namespace reference {

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::perror(what);
  std::exit(2);
}

/// One end of a connection that carries frames of bytes.
class RawTcp {
 public:
  explicit RawTcp(int fd) : fd_(fd) {
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  ~RawTcp() {
    if (fd_ >= 0) ::close(fd_);
  }
  RawTcp(RawTcp&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

  /// Both ends.
  static std::pair<RawTcp, RawTcp> connect() {
    const int listening = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    require(::bind(listening, raw, length) == 0 && ::listen(listening, 1) == 0 &&
                ::getsockname(listening, raw, &length) == 0,
            "listen");
    const int first = ::socket(AF_INET, SOCK_STREAM, 0);
    require(::connect(first, raw, length) == 0, "connect");
    const int second = ::accept(listening, nullptr, nullptr);
    require(second >= 0, "accept");
    ::close(listening);
    return {RawTcp(first), RawTcp(second)};
  }

  void send(harmonics::ByteSpan payload) {
    std::uint64_t header[2] = {kMagic, payload.size()};
    std::size_t done = 0;
    do {
      const auto chunk = payload.subspan(done, std::min(kChunk, payload.size() - done));
      std::uint32_t crc = harmonics::crc32c(chunk);
      std::array<iovec, 3> pieces = {{{header, done == 0 ? sizeof(header) : 0},
                                      {const_cast<std::byte*>(chunk.data()), chunk.size()},
                                      {&crc, sizeof(crc)}}};
      write_all(pieces);
      done += chunk.size();
    } while (done < payload.size());
  }

  /// Receives into `to`, which is large enough; the size.
  std::size_t receive(std::vector<std::byte>& to) {
    std::uint64_t header[2];
    read_all(header, sizeof(header));
    require(header[0] == kMagic && header[1] <= to.size() - sizeof(std::uint32_t), "frame");
    std::size_t done = 0;
    do {
      const std::size_t chunk = std::min<std::size_t>(kChunk, header[1] - done);
      // The checksum lands behind the chunk and is overwritten by the next one.
      read_all(to.data() + done, chunk + sizeof(std::uint32_t));
      std::uint32_t crc = 0;
      std::memcpy(&crc, to.data() + done + chunk, sizeof(crc));
      require(crc == harmonics::crc32c({to.data() + done, chunk}), "checksum");
      done += chunk;
    } while (done < header[1]);
    return done;
  }

 private:
  static constexpr std::uint64_t kMagic = 0x5241574652414d45;
  static constexpr std::size_t kChunk = std::size_t{256} << 10;

  void write_all(std::array<iovec, 3>& pieces) {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    for (;;) {
      const ssize_t count = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
      require(count >= 0, "send");
      auto left = static_cast<std::size_t>(count);
      while (message.msg_iovlen > 0 && left >= message.msg_iov->iov_len) {
        left -= message.msg_iov->iov_len;
        ++message.msg_iov;
        --message.msg_iovlen;
      }
      if (message.msg_iovlen == 0) return;
      message.msg_iov->iov_base = static_cast<std::byte*>(message.msg_iov->iov_base) + left;
      message.msg_iov->iov_len -= left;
    }
  }

  void read_all(void* to, std::size_t size) {
    require(::recv(fd_, to, size, MSG_WAITALL) == static_cast<ssize_t>(size), "recv");
  }

  int fd_;
};

}  // namespace reference
