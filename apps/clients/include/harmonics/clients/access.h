// How the commands reach the server.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <harmonics/options/cluster_commands.h>
#include <harmonics/rpc/client.h>

namespace harmonics::inline in_clients {

/// The folder given, or the user's own.
[[nodiscard]] std::filesystem::path state_folder(const std::filesystem::path& given);
/// The files of `role` ("server", "worker", "client") in a folder of 'server --init'.
[[nodiscard]] std::optional<TlsFiles> tls_files(const std::filesystem::path& folder,
                                                const std::string& role);
/// Flags, environment and client file together, in this order. The file's TLS folder and token are
/// those of its own server: where a flag or variable names another, they do not count.
[[nodiscard]] ServerAccess resolve_access(const ServerAccess& flags);
/// How a client waits.
struct ClientPatience {
  /// Told once, in a line, that a server is waited for; empty: standard error is.
  std::function<void(const std::string& line)> say{};
  /// As ClientOptions::interrupted.
  std::function<bool()> interrupted{};
};
/// Address, token and TLS files of a client. A server that has not made its token yet, or does not
/// listen yet, is waited for within the access's patience.
[[nodiscard]] ClientOptions client_options(const ServerAccess& flags,
                                           const ClientPatience& waiting = {});
/// The same for a worker, which waits as long as `go_on` says so; an Error (kCancelled) after that.
[[nodiscard]] ClientOptions worker_options(const ServerAccess& flags,
                                           const std::function<bool()>& go_on);

}  // namespace harmonics::inline in_clients
