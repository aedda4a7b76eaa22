// The weights that a pipeline of inference is run with.
#pragma once

#include <filesystem>
#include <string>

namespace harmonics::inline in_clients {

/// SHA-256 of the file, as hex. The manifest of a checkpoint stands for its files, whose digests it
/// holds. An Error where there is no such file, or it is a folder.
[[nodiscard]] std::string weights_file_digest(const std::filesystem::path& file);

}  // namespace harmonics::inline in_clients
