#include "stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>

namespace harmonics::inline in_transport {
namespace {

// Bytes to wait for together: a large share of a message would come late, a small one costs more
// wake-ups. So a quarter of what is still to come, within these bounds.
constexpr std::size_t kFewTogether = std::size_t{256} << 10;
constexpr std::size_t kMostTogether = std::size_t{1} << 20;
// What comes after the end goes through this much memory.
constexpr std::size_t kDroppedTogether = std::size_t{64} << 10;

class PlainStream final : public Stream {
 public:
  PlainStream(Descriptor socket, std::string peer)
      : socket_(std::move(socket)), peer_(std::move(peer)) {}

  Transfer read_some(std::span<const iovec> pieces) override {
    msghdr message = gather(pieces);
    const ssize_t count = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    if (count == 0) fail(ErrorCode::kUnavailable, "{} closed the connection", peer_);
    return result(count, POLLIN);
  }

  Transfer write_some(std::span<const iovec> pieces, bool more) override {
    const msghdr message = gather(pieces);
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
    return result(::sendmsg(socket_.get(), &message, flags), POLLOUT);
  }

  void push() override {
    // Setting it again is what makes the kernel send what it holds.
    const int on = 1;
    (void)::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }

  void expect(std::size_t bytes) override {
    const std::size_t most = std::clamp(bytes / 4, kFewTogether, kMostTogether);
    const int wanted = static_cast<int>(std::clamp<std::size_t>(bytes, 1, most));
    if (wanted == low_water_) return;
    // Without it the wait ends earlier, no more.
    (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof(wanted));
    low_water_ = wanted;
  }

  int fd() const override { return socket_.get(); }
  const std::string& peer() const override { return peer_; }
  void shut() override { ::shutdown(socket_.get(), SHUT_RDWR); }
  void part(Deadline until) override {
    expect(1);
    part_socket(socket_.get(), until);
  }

 private:
  static msghdr gather(std::span<const iovec> pieces) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());
    message.msg_iovlen = pieces.size();
    return message;
  }

  Transfer result(ssize_t count, short wait) const {
    if (count >= 0) return {static_cast<std::size_t>(count), 0};
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {0, wait};
    fail(ErrorCode::kUnavailable, "the connection to {} broke: {}", peer_, std::strerror(errno));
  }

  Descriptor socket_;
  std::string peer_;
  int low_water_ = 1;
};

}  // namespace

StreamPtr make_plain_stream(Descriptor socket, std::string peer) {
  return std::make_unique<PlainStream>(std::move(socket), std::move(peer));
}

void part_socket(int fd, Deadline until) {
  ::shutdown(fd, SHUT_WR);
  std::vector<std::byte> dropped(kDroppedTogether);
  for (;;) {
    const ssize_t count = ::recv(fd, dropped.data(), dropped.size(), MSG_DONTWAIT);
    if (count > 0 && std::chrono::steady_clock::now() < until) continue;
    if (count >= 0 || (errno != EAGAIN && errno != EINTR)) return;
    if (!wait_for(fd, POLLIN, until, nullptr)) return;
  }
}

void write_all(Stream& stream, ByteSpan bytes, Deadline deadline, const WakeEvent* cancel) {
  while (!bytes.empty()) {
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    const Transfer transfer = stream.write_some({&piece, 1});
    bytes = bytes.subspan(transfer.bytes);
    if (transfer.bytes == 0 && !wait_for(stream.fd(), transfer.wait, deadline, cancel)) {
      fail(ErrorCode::kDeadlineExceeded, "{} took no bytes before the deadline", stream.peer());
    }
  }
}

}  // namespace harmonics::inline in_transport
