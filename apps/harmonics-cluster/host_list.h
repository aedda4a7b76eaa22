// The file of 'harmonics up': hosts, and what the worker of each is told.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace harmonics::inline in_cluster_program {

inline constexpr std::size_t kMaxHosts = 10'000;

struct HostLine {
  std::string host;                  ///< As the file names it, without user and port.
  std::string user{};                ///< Empty: whom SSH picks.
  std::uint16_t port = 0;            ///< 0: what SSH picks.
  std::string worker;                ///< Its worker's name: --id, or the host.
  std::vector<std::string> flags{};  ///< Of its worker, without --id.
};

/// A line for each worker, "[USER@]HOST[:PORT] [FLAG ...]", an IPv6 address in brackets; what
/// follows a '#' is a remark. A line that is wrong, a worker named twice or a flag that 'up' gives
/// itself is an Error that names `where` and the line.
[[nodiscard]] std::vector<HostLine> parse_hosts(std::string_view text, const std::string& where);

/// Whether the name is this machine's own loopback.
[[nodiscard]] bool is_loopback(const std::string& host);

}  // namespace harmonics::inline in_cluster_program
