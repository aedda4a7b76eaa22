// Completion scripts, made from the outline of the command line so that they never miss a flag.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <harmonics/options/command_line.h>

namespace harmonics::inline in_front {

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

/// How bash and zsh say it: both find the command in `at` and the word before in `previous`.
struct CaseScript {
  const char* opening;  ///< Up to the case over "$at $word" that finds the command.
  const char* closing;  ///< From the end of the case over "$at".
  /// What completes the value of this flag; empty: nothing does.
  std::string (*after_flag)(const ArgumentOutline& argument);
  /// What completes any other word of this command.
  std::string (*at_command)(const CommandOutline& command);
};
[[nodiscard]] std::string case_script(const CommandOutline& root, const CaseScript& shell);

[[nodiscard]] std::string bash_completion(const CommandOutline& root);
[[nodiscard]] std::string zsh_completion(const CommandOutline& root);
[[nodiscard]] std::string fish_completion(const CommandOutline& root);

}  // namespace harmonics::inline in_front
