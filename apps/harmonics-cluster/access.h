// How the commands reach the server.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <harmonics/options/cluster_commands.h>
#include <harmonics/rpc/client.h>

namespace harmonics {

/// The folder given, or the user's own.
[[nodiscard]] std::filesystem::path state_folder(const std::filesystem::path& given);
/// The files of `role` ("server", "worker", "client") in a folder of 'server --init'.
[[nodiscard]] std::optional<TlsFiles> tls_files(const std::filesystem::path& folder,
                                                const std::string& role);
/// Address, token and TLS files of a client or (`role`) a worker.
[[nodiscard]] ClientOptions client_options(const ServerAccess& access,
                                           const std::string& role = "client");
/// The folder of the running program.
[[nodiscard]] std::filesystem::path program_folder();

}  // namespace harmonics
