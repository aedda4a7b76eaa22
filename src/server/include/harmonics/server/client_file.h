// What a client need not be told with every call: client.yml (docs/formats/client.md).
#pragma once

#include <filesystem>
#include <string>

namespace harmonics::inline in_server {

/// How to reach a cluster. What is empty is not said.
struct ClientFile {
  std::string scheduler{};
  std::filesystem::path tls{};
  std::filesystem::path token_file{};
};

/// $XDG_CONFIG_HOME/harmonics/client.yml, or ~/.config/harmonics/client.yml; empty where neither
/// XDG_CONFIG_HOME nor HOME is set.
[[nodiscard]] std::filesystem::path default_client_file();

/// Reads lines of "key: value"; paths are relative to the file's folder and come out absolute. An
/// unknown key, one that is given twice or a line of another form is an Error with file and line.
[[nodiscard]] ClientFile read_client_file(const std::filesystem::path& path);
/// The text that says the same; paths stay as they are.
[[nodiscard]] std::string client_file_text(const ClientFile& file);

}  // namespace harmonics::inline in_server
