// Where server and worker keep what must survive them, and the token that lets a user in.
#pragma once

#include <filesystem>
#include <string>

#include <harmonics/base/descriptor.h>

namespace harmonics::inline in_server {

/// $XDG_STATE_HOME/harmonics, or ~/.local/state/harmonics.
[[nodiscard]] std::filesystem::path default_state_folder();

/// Makes the folder, and those above it, when they are not there; what it makes is the owner's
/// alone (mode 700).
void make_state_folder(const std::filesystem::path& folder);

/// A lock that a process holds as long as it lives.
class FolderLock {
 public:
  /// Throws kFailedPrecondition when another process has it; `who` says what it is ("server").
  FolderLock(const std::filesystem::path& folder, const std::string& who);

 private:
  Descriptor descriptor_;
};

/// The token of `folder`, made (mode 600) when there is none.
[[nodiscard]] std::string make_token_file(const std::filesystem::path& folder);
/// The token in a file; one that others may read is an Error.
[[nodiscard]] std::string read_token_file(const std::filesystem::path& file);
/// 64 hexadecimal digits that nobody can guess.
[[nodiscard]] std::string random_token();
/// The name of the user who runs this process.
[[nodiscard]] std::string user_name();

}  // namespace harmonics::inline in_server
