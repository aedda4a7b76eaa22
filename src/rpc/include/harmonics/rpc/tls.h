// The files of one end of a TLS connection.
#pragma once

#include <filesystem>

namespace harmonics {

/// PEM files; both ends show a certificate that the authority has signed.
struct TlsFiles {
  std::filesystem::path authority;
  std::filesystem::path certificate;
  std::filesystem::path key;
};

}  // namespace harmonics
