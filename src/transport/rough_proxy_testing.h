// For tests: a proxy that mistreats the connections it forwards.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <span>
#include <thread>

#include <harmonics/base/random.h>

#include "socket.h"

namespace harmonics::inline in_transport {

/// How a proxy treats each connection: chance gives it a number of bytes up to the limit, and what
/// happens after that many. 0: never.
struct Roughness {
  std::uint64_t seed = 1;
  /// Cuts the connection there, wherever in a frame that is; half of the cuts are resets.
  std::uint64_t cut_within_bytes = 0;
  /// Flips one bit there.
  std::uint64_t flip_within_bytes = 0;
  /// Leaves out some bytes there, up to 64.
  std::uint64_t drop_within_bytes = 0;
};

/// Forwards connections to a port of this machine, on a thread of its own.
class RoughProxy {
 public:
  RoughProxy(std::uint16_t target_port, const Roughness& roughness);
  ~RoughProxy();

  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Connections that were cut, bits that were flipped, and holes that were made, so far.
  [[nodiscard]] std::uint64_t cuts() const { return cuts_; }
  [[nodiscard]] std::uint64_t drops() const { return drops_; }
  [[nodiscard]] std::uint64_t flips() const { return flips_; }
  /// Treats connections well from now on, also those that there are.
  void be_gentle() { gentle_ = true; }
  /// Flips a bit of the fifth byte that the next connection brings, which is the version of a
  /// frame.
  void spoil_next_version() { spoils_version_ = true; }
  /// Cuts all connections and lets no new one in until `allow`. Returns when they are cut.
  void forbid();
  void allow() { forbidden_ = false; }

 private:
  struct Pair {
    Descriptor ends[2];
    std::uint64_t forwarded = 0;
    std::uint64_t cut_at = 0;
    std::uint64_t flip_at = 0;
    std::uint64_t drop_at = 0;
  };

  void run();
  void accept_one();
  bool forward(Pair& pair, int from);
  std::span<char> without_some(Pair& pair, std::span<char> bytes);
  void cut(Pair& pair);

  const std::uint16_t target_;
  const Roughness roughness_;
  Random random_;
  Descriptor listening_;
  std::uint16_t port_ = 0;
  WakeEvent wake_;
  std::list<Pair> pairs_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> gentle_ = false;
  std::atomic<bool> forbidden_ = false;
  std::atomic<bool> spoils_version_ = false;
  std::atomic<bool> empty_ = true;
  std::atomic<std::uint64_t> cuts_ = 0;
  std::atomic<std::uint64_t> flips_ = 0;
  std::atomic<std::uint64_t> drops_ = 0;
  std::thread thread_;
};

}  // namespace harmonics::inline in_transport
