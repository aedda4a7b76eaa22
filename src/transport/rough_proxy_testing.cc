#include "rough_proxy_testing.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include <harmonics/base/error.h>

namespace harmonics::inline in_transport {
namespace {

SocketAddress here(std::uint16_t port) { return resolve("127.0.0.1", port).front(); }

// Writes everything, waiting as long as it takes; false when the other side is gone.
bool write_whole(int fd, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      pollfd watched = {fd, POLLOUT, 0};
      (void)::poll(&watched, 1, 100);
      if ((watched.revents & (POLLERR | POLLHUP)) != 0) return false;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

RoughProxy::RoughProxy(std::uint16_t target_port, const Roughness& roughness)
    : target_(target_port), roughness_(roughness), random_(roughness.seed, "proxy") {
  listening_ = std::move(*listen_on(here(0)));
  port_ = bound_address(listening_).port();
  thread_ = std::thread([this] { run(); });
}

RoughProxy::~RoughProxy() {
  stopping_ = true;
  wake_.signal();
  thread_.join();
}

void RoughProxy::forbid() {
  forbidden_ = true;
  wake_.signal();
  while (!empty_) std::this_thread::yield();
}

void RoughProxy::run() {
  while (!stopping_) {
    if (forbidden_) {
      while (!pairs_.empty()) {
        cut(pairs_.front());
        pairs_.pop_front();
      }
      empty_ = true;
    }
    std::vector<pollfd> watched = {{wake_.fd(), POLLIN, 0}, {listening_.get(), POLLIN, 0}};
    for (const Pair& pair : pairs_) {
      for (const Descriptor& end : pair.ends) watched.push_back({end.get(), POLLIN, 0});
    }
    if (::poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched[0].revents != 0) wake_.clear();
    std::size_t at = 2;
    for (auto pair = pairs_.begin(); pair != pairs_.end();) {
      bool alive = true;
      for (int from = 0; from < 2; ++from, ++at) {
        if (alive && watched[at].revents != 0) alive = forward(*pair, from);
      }
      pair = alive ? std::next(pair) : pairs_.erase(pair);
    }
    if (watched[1].revents != 0) accept_one();
  }
}

void RoughProxy::accept_one() {
  std::string from;
  Pair pair;
  pair.ends[0] = accept_from(listening_, from);
  if (!pair.ends[0] || forbidden_) return;
  try {
    pair.ends[1] = connect_to(here(target_), deadline_in(std::chrono::seconds(5)), WakeEvent());
  } catch (const Error&) {
    return;
  }
  if (roughness_.cut_within_bytes > 0) {
    pair.cut_at = 1 + random_.below(roughness_.cut_within_bytes);
  }
  if (roughness_.flip_within_bytes > 0) {
    pair.flip_at = 1 + random_.below(roughness_.flip_within_bytes);
  }
  if (roughness_.drop_within_bytes > 0) {
    pair.drop_at = 1 + random_.below(roughness_.drop_within_bytes);
  }
  empty_ = false;
  pairs_.push_back(std::move(pair));
}

bool RoughProxy::forward(Pair& pair, int from) {
  std::array<char, 16 << 10> buffer;
  const ssize_t count = ::recv(pair.ends[from].get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count < 0 && errno == EAGAIN) return true;
  if (count <= 0) return false;
  std::span<char> bytes(buffer.data(), static_cast<std::size_t>(count));
  const std::uint64_t after = pair.forwarded + bytes.size();
  if (!gentle_ && pair.flip_at > pair.forwarded && pair.flip_at <= after) {
    bytes[pair.flip_at - pair.forwarded - 1] ^= static_cast<char>(1 << random_.below(8));
    ++flips_;
    // Another one later on, for the case that this one hit bytes that mean nothing.
    pair.flip_at = after + 1 + random_.below(roughness_.flip_within_bytes);
  }
  constexpr std::size_t kVersion = 4;
  if (from == 0 && pair.forwarded == 0 && bytes.size() > kVersion &&
      spoils_version_.exchange(false)) {
    bytes[kVersion] ^= 4;
    ++flips_;
  }
  bytes = without_some(pair, bytes);
  const bool cuts = !gentle_ && pair.cut_at > pair.forwarded && pair.cut_at <= after;
  if (cuts) bytes = bytes.first(pair.cut_at - pair.forwarded);
  pair.forwarded += bytes.size();
  if (!write_whole(pair.ends[1 - from].get(), bytes)) return false;
  if (cuts) cut(pair);
  return !cuts;
}

// The last bytes of what is forwarded at that point: whoever gets the rest waits for them.
std::span<char> RoughProxy::without_some(Pair& pair, std::span<char> bytes) {
  const std::uint64_t after = pair.forwarded + bytes.size();
  if (gentle_ || pair.drop_at <= pair.forwarded || pair.drop_at > after) return bytes;
  constexpr std::uint64_t kMostDropped = 64;
  const std::uint64_t dropped =
      std::min<std::uint64_t>(bytes.size(), 1 + random_.below(kMostDropped));
  ++drops_;
  // Another one later on, for the case that this one hit a frame of HTTP/2 that nobody misses.
  pair.drop_at = after + 1 + random_.below(roughness_.drop_within_bytes);
  return bytes.first(bytes.size() - dropped);
}

void RoughProxy::cut(Pair& pair) {
  ++cuts_;
  if (random_.below(2) == 0) return;  // closing alone is an orderly end in the middle of a frame
  const linger reset = {1, 0};
  for (const Descriptor& end : pair.ends) {
    (void)::setsockopt(end.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  }
}

}  // namespace harmonics::inline in_transport
