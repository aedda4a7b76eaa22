// What TLS leaves open about a peer's certificate: whether it was revoked, and whose it is (private
// to rpc).
#pragma once

#include <filesystem>
#include <string>

namespace harmonics::inline in_rpc {

struct PeerRules {
  std::filesystem::path authority;  ///< Who signed the list.
  std::filesystem::path revoked;    ///< The list; none where the file is not there.
  bool names_host = false;          ///< The certificate must name the host that was dialled.
};

/// Why a peer with this certificate (PEM), dialled as `host` ("head.example:50051"), is turned
/// away; empty: it is welcome. A list that cannot be read, or that the authority has not signed,
/// turns everybody away.
[[nodiscard]] std::string refuse_peer(const std::string& pem, const PeerRules& rules,
                                      const std::string& host);

}  // namespace harmonics::inline in_rpc
