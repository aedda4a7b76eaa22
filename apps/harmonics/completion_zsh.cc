#include <harmonics/base/format.h>

#include "completion.h"

namespace harmonics::inline in_front {
namespace {

constexpr const char* kZshOpening = R"(#compdef harmonics
# zsh completion for harmonics; load it with
#   source <(harmonics completion zsh)
_harmonics() {
  local at=harmonics previous="${words[CURRENT-1]}" word
  local -a found
  for word in "${(@)words[2,CURRENT-1]}"; do
    case "$at $word" in
)";

constexpr const char* kZshClosing = R"(  esac
}
(( $+functions[compdef] )) && compdef _harmonics harmonics
)";

// An entry of _describe: a colon ends the word.
std::string entry(const std::string& word, const std::string& help) {
  return shell_quote(word + ":" + help);
}

std::string zsh_after_flag(const ArgumentOutline& argument) {
  if (!argument.choices.empty()) return format("compadd -- {}", spaced(argument.choices));
  return argument.takes_file ? "_files" : "";
}

std::string zsh_at_command(const CommandOutline& command) {
  std::vector<std::string> words;
  for (const CommandOutline& sub : command.subcommands) {
    words.push_back(entry(sub.name, sub.help));
  }
  std::vector<std::string> flags;
  for (const ArgumentOutline& argument : command.arguments) {
    if (argument.flag.empty()) {
      for (const std::string& choice : argument.choices)
        words.push_back(entry(choice, argument.help));
    } else {
      flags.push_back(entry(argument.flag, argument.help));
    }
  }
  const ArgumentOutline* positional = positional_of(command);
  std::string otherwise = "_files";
  if (positional == nullptr || !positional->takes_file) {
    otherwise = format("found=({}); _describe command found", spaced(words));
  }
  return format(
      "if [[ ${{words[CURRENT]}} == -* ]]; then\n"
      "        found=({})\n"
      "        _describe -o flag found\n"
      "      else\n"
      "        {}\n"
      "      fi",
      spaced(flags), otherwise);
}

}  // namespace

std::string zsh_completion(const CommandOutline& root) {
  return case_script(root, {kZshOpening, kZshClosing, zsh_after_flag, zsh_at_command});
}

}  // namespace harmonics::inline in_front
