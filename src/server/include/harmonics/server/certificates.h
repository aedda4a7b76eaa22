// Certificates and tokens for a cluster on several machines.
//
// A folder of 'server --init' (docs/guides/cluster.md) holds two authorities: `ca` signs what
// server, workers and clients show each other at the server's door, `peers` what workers show at
// theirs (to the server that reads logs, and to the stages of pipelines), which no client trusts.
// So nobody but the server has a certificate that a client takes for the server's. Certificates
// name who they are for: harmonics://server, harmonics://worker[/HOST], harmonics://client,
// harmonics://user/NAME.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace harmonics::inline in_server {

/// How long certificates are good for unless told otherwise; authorities: ten years.
inline constexpr int kCertificateDays = 730;

struct InitWishes {
  /// Names or addresses of the server (where it has no certificate yet) and of machines that work.
  std::vector<std::string> hosts{};
  /// "NAME" or "NAME:ROLE" (submit, view, admin).
  std::vector<std::string> users{};
  /// Hosts, users or roles (worker, client) whose certificates and tokens are good no longer.
  std::vector<std::string> revoked{};
  int days = kCertificateDays;
  std::uint16_t port = 50051;  ///< Of the server, for client.yml where there is none yet.
};

/// Makes in `folder` what is missing of: both authorities (ca.*, peers.*), certificates of server,
/// worker, peer and client (ROLE.pem, ROLE.key), a token for each role (submit.token, view.token,
/// admin.token, worker.token), the server's list of them (tokens), a list of revoked certificates
/// (revoked.pem), and client.yml; then hosts/HOST and users/NAME, each with all that is to be
/// copied there, and what `revoked` says. Nothing is ever overwritten; where nothing is to be made
/// either, that is an Error (kAlreadyExists). Keys and tokens are readable by the owner alone. What
/// was done, in sentences.
std::vector<std::string> make_certificates(const std::filesystem::path& folder,
                                           const InitWishes& wishes);

/// Whether the one who has the certificate in a file may listen with it, and not only dial.
[[nodiscard]] bool certificate_serves(const std::filesystem::path& file);
/// The last day of the certificate in a file, "2029-02-18".
[[nodiscard]] std::string certificate_end(const std::filesystem::path& file);

}  // namespace harmonics::inline in_server
