// A file that must be new (private to custody).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>

namespace harmonics::inline in_custody {

/// Writes and syncs a file with this mode; one that exists already is an Error (kAlreadyExists).
/// After an error nothing of it is left.
void write_new_file(const std::filesystem::path& file, std::string_view text, mode_t mode);

}  // namespace harmonics::inline in_custody
