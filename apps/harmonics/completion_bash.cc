#include <harmonics/base/format.h>

#include "completion.h"

namespace harmonics::inline in_front {
namespace {

constexpr const char* kBashOpening = R"(# bash completion for harmonics; load it with
#   source <(harmonics completion bash)
_harmonics_files() {
  compopt -o filenames 2>/dev/null
  COMPREPLY=($(compgen -f -- "$1"))
}

_harmonics() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"
  local at=harmonics word
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$at $word" in
)";

constexpr const char* kBashClosing = R"(  esac
}
complete -F _harmonics harmonics
)";

std::string bash_after_flag(const ArgumentOutline& argument) {
  if (!argument.choices.empty()) {
    return format("COMPREPLY=($(compgen -W {} -- \"$current\"))",
                  shell_quote(spaced(argument.choices)));
  }
  return argument.takes_file ? "_harmonics_files \"$current\"" : "";
}

std::string bash_at_command(const CommandOutline& command) {
  std::vector<std::string> words;
  for (const CommandOutline& sub : command.subcommands) words.push_back(sub.name);
  const ArgumentOutline* positional = positional_of(command);
  if (positional != nullptr) {
    words.insert(words.end(), positional->choices.begin(), positional->choices.end());
  }
  for (const ArgumentOutline& argument : command.arguments) {
    if (!argument.flag.empty()) words.push_back(argument.flag);
  }
  const std::string complete =
      format("COMPREPLY=($(compgen -W {} -- \"$current\"))", shell_quote(spaced(words)));
  if (positional == nullptr || !positional->takes_file) return complete;
  return format("if [[ $current == -* ]]; then {}; else _harmonics_files \"$current\"; fi",
                complete);
}

}  // namespace

std::string bash_completion(const CommandOutline& root) {
  return case_script(root, {kBashOpening, kBashClosing, bash_after_flag, bash_at_command});
}

}  // namespace harmonics::inline in_front
