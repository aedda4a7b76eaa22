#include "access.h"

#include <cstdlib>

#include <harmonics/base/error.h>
#include <harmonics/server/state_folder.h>

namespace harmonics {
namespace {

namespace fs = std::filesystem;

fs::path token_file(const ServerAccess& access, const std::string& role) {
  if (!access.token_file.empty()) return access.token_file;
  if (const char* named = std::getenv("HARMONICS_TOKEN_FILE"); named != nullptr && *named != '\0') {
    return named;
  }
  if (!access.tls.empty()) return access.tls / (role == "worker" ? "worker.token" : "admin.token");
  return state_folder(access.state_dir) / "token";
}

}  // namespace

fs::path state_folder(const fs::path& given) {
  return fs::absolute(given.empty() ? default_state_folder() : given);
}

std::optional<TlsFiles> tls_files(const fs::path& folder, const std::string& role) {
  if (folder.empty()) return std::nullopt;
  return TlsFiles{folder / "ca.pem", folder / (role + ".pem"), folder / (role + ".key")};
}

ClientOptions client_options(const ServerAccess& access, const std::string& role) {
  ClientOptions options;
  options.server = access.scheduler;
  options.token = read_token_file(token_file(access, role));
  options.tls = tls_files(access.tls, role);
  return options;
}

fs::path program_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) fail_errno(error.value(), "cannot find the folder of this program (/proc/self/exe)");
  return self.parent_path();
}

}  // namespace harmonics
