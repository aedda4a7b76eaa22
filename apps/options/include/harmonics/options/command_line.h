// From the words of a command line to a Command; the only door to the argument parser.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include <harmonics/arguments/usage.h>
#include <harmonics/options/commands.h>

namespace harmonics::inline in_options {

/// Parses and checks everything that can be known without opening a file.
[[nodiscard]] std::variant<Command, UsageAnswer> parse_command_line(int argc,
                                                                    const char* const* argv);

/// One flag or positional argument, for shells that complete it and for those who pass it on.
struct ArgumentOutline {
  /// "--epochs"; empty for a positional argument.
  std::string flag;
  std::string help;
  /// What stands for the value in help: "N", "FILE", "N|auto".
  std::string placeholder;
  bool takes_value = false;
  bool repeatable = false;
  /// Another name of the flag before it.
  bool alias = false;
  bool takes_file = false;
  /// All possible values, where they are few.
  std::vector<std::string> choices;
};

struct CommandOutline {
  std::string name;
  std::string help;
  std::vector<ArgumentOutline> arguments;
  std::vector<CommandOutline> subcommands;
};

/// The whole tree of subcommands and flags.
[[nodiscard]] CommandOutline command_outline();

}  // namespace harmonics::inline in_options
