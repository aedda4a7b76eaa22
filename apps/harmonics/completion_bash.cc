#include <harmonics/base/format.h>

#include "completion.h"

namespace harmonics {
namespace {

constexpr const char* kOpening = R"(# bash completion for harmonics; load it with
#   source <(harmonics completion bash)
_harmonics_files() {
  compopt -o filenames 2>/dev/null
  COMPREPLY=($(compgen -f -- "$1"))
}

_harmonics() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"
  local at=harmonics word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$at $word" in
)";

constexpr const char* kClosing = R"(  esac
}
complete -F _harmonics harmonics
)";

// What may follow a flag that takes a value.
std::string after_flag(const std::string& path, const ArgumentOutline& argument) {
  std::string action = "return";
  if (!argument.choices.empty()) {
    action = format("COMPREPLY=($(compgen -W {} -- \"$current\")); return",
                    shell_quote(spaced(argument.choices)));
  } else if (argument.takes_file) {
    action = "_harmonics_files \"$current\"; return";
  }
  return format("    \"{} {}\") {} ;;\n", path, argument.flag, action);
}

std::string at_command(const CommandAt& command) {
  std::vector<std::string> words;
  for (const CommandOutline& sub : command.outline->subcommands) words.push_back(sub.name);
  const ArgumentOutline* positional = positional_of(*command.outline);
  if (positional != nullptr) {
    words.insert(words.end(), positional->choices.begin(), positional->choices.end());
  }
  for (const ArgumentOutline& argument : command.outline->arguments) {
    if (!argument.flag.empty()) words.push_back(argument.flag);
  }
  const std::string complete =
      format("COMPREPLY=($(compgen -W {} -- \"$current\"))", shell_quote(spaced(words)));
  if (positional == nullptr || !positional->takes_file) {
    return format("    \"{}\") {} ;;\n", command.path, complete);
  }
  return format(
      "    \"{}\")\n"
      "      if [[ $current == -* ]]; then {}; else _harmonics_files \"$current\"; fi ;;\n",
      command.path, complete);
}

}  // namespace

std::string bash_completion(const CommandOutline& root) {
  const std::vector<CommandAt> commands = all_commands(root);
  std::string script = kOpening;
  for (const CommandAt& command : commands) {
    if (command.outline != &root)
      script += format("      \"{}\") at=\"$at $word\" ;;\n", command.path);
  }
  script += "    esac\n  done\n  COMPREPLY=()\n  case \"$at $previous\" in\n";
  for (const CommandAt& command : commands) {
    for (const ArgumentOutline& argument : command.outline->arguments) {
      if (!argument.flag.empty() && argument.takes_value) {
        script += after_flag(command.path, argument);
      }
    }
  }
  script += "  esac\n  case \"$at\" in\n";
  for (const CommandAt& command : commands) script += at_command(command);
  return script + kClosing;
}

}  // namespace harmonics
