// Certificates and tokens for a cluster on several machines.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace harmonics {

/// Makes in `folder` (mode 700, which must not hold a cluster's files yet): an authority (ca.pem,
/// ca.key), certificates of server, worker and client signed by it (ROLE.pem, ROLE.key), a token
/// for each role (submit.token, view.token, admin.token, worker.token) and the server's list of
/// them (tokens). The server's certificate is good for localhost, this machine's name and `hosts`.
/// All keys and tokens are readable by the owner alone.
void make_certificates(const std::filesystem::path& folder, const std::vector<std::string>& hosts);

}  // namespace harmonics
