// For tests: a port to meet at that stays free until somebody listens there, however often.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/random.h>

#include "session/handshake.h"
#include "socket.h"

namespace harmonics::inline in_transport {

/// A port of loopback that nobody listens on and that no other test gets while this process lives.
/// It lies below those that the system gives to outgoing connections: one of those may be taken
/// between two listeners, by any connection on this machine.
inline std::uint16_t reserved_port() {
  constexpr std::uint64_t kFirst = 10000, kCount = 10000;
  constexpr int kAttempts = 1000;
  static std::mutex mutex;
  static std::vector<Descriptor> reservations;
  static Random random(random_instance().low, "ports");
  const std::lock_guard lock(mutex);
  for (int i = 0; i < kAttempts; ++i) {
    const auto port = static_cast<std::uint16_t>(kFirst + random.below(kCount));
    auto mine = listen_on(SocketAddress::local(format("harmonics-test-port-{}", port)));
    if (!mine || !listen_on(resolve("127.0.0.1", port).front())) continue;
    reservations.push_back(std::move(*mine));
    return port;
  }
  fail(ErrorCode::kUnavailable, "there is no free port from {} to {}", kFirst, kFirst + kCount - 1);
}

}  // namespace harmonics::inline in_transport
