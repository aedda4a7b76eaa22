#include <harmonics/base/user_folders.h>

#include <harmonics/base/environment.h>

namespace harmonics::inline in_base {
namespace {

std::optional<std::filesystem::path> user_folder(const char* variable, const char* below_home) {
  if (const std::filesystem::path named = environment_text(variable); named.is_absolute()) {
    return named / "harmonics";
  }
  const std::filesystem::path home = environment_text("HOME");
  if (!home.is_absolute()) return std::nullopt;
  return home / below_home / "harmonics";
}

}  // namespace

std::optional<std::filesystem::path> user_state_folder() {
  return user_folder("XDG_STATE_HOME", ".local/state");
}
std::optional<std::filesystem::path> user_cache_folder() {
  return user_folder("XDG_CACHE_HOME", ".cache");
}
std::optional<std::filesystem::path> user_config_folder() {
  return user_folder("XDG_CONFIG_HOME", ".config");
}

}  // namespace harmonics::inline in_base
