// Bandwidth between two machines over plain TCP: one serves, the other measures.
//
// A connection carries requests of 16 bytes: "harm-bw1", a direction ('u': the client sends, 'd':
// the server sends), three zero bytes, and the number of bytes as a 32-bit little-endian integer.
// The bytes follow in that direction; after an upload the server answers "harm-ok1". Whatever is
// else than that closes the connection. Nothing that arrives is kept.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <harmonics/base/clock.h>
#include <harmonics/base/descriptor.h>

namespace harmonics::inline in_place {

/// Ceilings of one request, and of one connection.
inline constexpr std::uint32_t kMaxBandwidthBytes = std::uint32_t{256} << 20;
inline constexpr int kMaxBandwidthRequests = 64;
/// How long a connection, or a whole measurement, may last.
inline constexpr std::chrono::seconds kBandwidthDeadline{60};

/// "host:port" or "port" in two pieces; `host` is empty for the latter. Another text is an Error
/// (kInvalidArgument).
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
[[nodiscard]] HostPort parse_host_port(const std::string& text);

/// The end that answers. One connection at a time, one thread.
class BandwidthServer {
 public:
  /// Listens; port 0 takes a free one, an empty host means every address of this machine. A host
  /// that is unknown or a port that is taken is an Error.
  explicit BandwidthServer(const HostPort& where,
                           std::chrono::milliseconds deadline = kBandwidthDeadline);

  [[nodiscard]] std::uint16_t port() const;

  /// Waits for a connection (without limit) and answers it until the client closes it or the
  /// deadline passes. A client that breaks the protocol is an Error that names it; the server can
  /// go on with the next one.
  void serve_one();

 private:
  Descriptor socket_;
  std::chrono::milliseconds deadline_;
};

/// Megabits (of 1024 * 1024 bits, as the planner counts) per second to and from a server, the
/// smaller of the two: blocks that grow until one takes long enough to be measured well. Errors
/// name the peer: kUnavailable, kDeadlineExceeded, kNotFound.
[[nodiscard]] double measure_bandwidth_mbps(
    const HostPort& peer, const Clock& clock,
    std::chrono::milliseconds deadline = kBandwidthDeadline);

/// What a network is taken to do, and where that comes from, in words.
struct FoundBandwidth {
  double mbps = 0;
  std::string source;
};
/// Given (above 0), measured to `peer` ("host:port", not empty), on file, or the interface's own
/// word, in this order; else a usual one, with a warning.
[[nodiscard]] FoundBandwidth find_bandwidth(double given_mbps, const std::string& peer,
                                            std::optional<double> on_file, const Clock& clock);

}  // namespace harmonics::inline in_place
