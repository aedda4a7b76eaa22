// The files of one end of a TLS connection.
#pragma once

#include <filesystem>

namespace harmonics::inline in_rpc {

/// PEM files; both ends show a certificate that the authority has signed. The optional ones count
/// where the file is there.
struct TlsFiles {
  std::filesystem::path authority;
  std::filesystem::path certificate;
  std::filesystem::path key;
  /// Certificates of the authority that are good no longer; read anew for every connection.
  std::filesystem::path revoked{};
  /// What a worker shows at its own door, and the authority that signs that of all workers.
  std::filesystem::path peer_authority{};
  std::filesystem::path peer_certificate{};
  std::filesystem::path peer_key{};
};

}  // namespace harmonics::inline in_rpc
