// Where the files of this user lie, by the rules of the XDG Base Directory Specification.
#pragma once

#include <filesystem>
#include <optional>

namespace harmonics::inline in_base {

// Each is the folder "harmonics" in the one that the variable names or, where that is unset, empty
// or no absolute path, in the usual one below HOME. Nothing where HOME does not help either. They
// are not made here.

/// $XDG_STATE_HOME, or ~/.local/state: what one run leaves for the next.
[[nodiscard]] std::optional<std::filesystem::path> user_state_folder();
/// $XDG_CACHE_HOME, or ~/.cache: what can be made again.
[[nodiscard]] std::optional<std::filesystem::path> user_cache_folder();
/// $XDG_CONFIG_HOME, or ~/.config: what the user chose.
[[nodiscard]] std::optional<std::filesystem::path> user_config_folder();

}  // namespace harmonics::inline in_base
