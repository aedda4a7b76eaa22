// Completion scripts, made from the outline of the command line so that they never miss a flag.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <harmonics/options/command_line.h>

namespace harmonics {

/// A command with the words that lead to it: "harmonics graph show".
struct CommandAt {
  std::string path;
  const CommandOutline* outline;
};

/// All commands of a tree, parents first; they point into `root`.
[[nodiscard]] std::vector<CommandAt> all_commands(const CommandOutline& root);
/// The command's positional argument, or null.
[[nodiscard]] const ArgumentOutline* positional_of(const CommandOutline& command);
/// The words with spaces between them.
[[nodiscard]] std::string spaced(const std::vector<std::string>& words);
/// `text` in single quotes for bash and zsh.
[[nodiscard]] std::string shell_quote(std::string_view text);

[[nodiscard]] std::string bash_completion(const CommandOutline& root);
[[nodiscard]] std::string zsh_completion(const CommandOutline& root);
[[nodiscard]] std::string fish_completion(const CommandOutline& root);

}  // namespace harmonics
