#include <harmonics/base/format.h>

#include "completion.h"

namespace harmonics {
namespace {

constexpr const char* kOpening = R"(#compdef harmonics
# zsh completion for harmonics; load it with
#   source <(harmonics completion zsh)
_harmonics() {
  local at=harmonics previous="${words[CURRENT-1]}" word
  local -a found
  for word in "${(@)words[2,CURRENT-1]}"; do
    case "$at $word" in
)";

constexpr const char* kClosing = R"(  esac
}
(( $+functions[compdef] )) && compdef _harmonics harmonics
)";

// An entry of _describe: a colon ends the word.
std::string entry(const std::string& word, const std::string& help) {
  return shell_quote(word + ":" + help);
}

std::string after_flag(const std::string& path, const ArgumentOutline& argument) {
  std::string action = "return";
  if (!argument.choices.empty()) {
    action = format("compadd -- {}; return", spaced(argument.choices));
  } else if (argument.takes_file) {
    action = "_files; return";
  }
  return format("    (\"{} {}\") {} ;;\n", path, argument.flag, action);
}

std::string at_command(const CommandAt& command) {
  std::vector<std::string> words;
  for (const CommandOutline& sub : command.outline->subcommands) {
    words.push_back(entry(sub.name, sub.help));
  }
  std::vector<std::string> flags;
  for (const ArgumentOutline& argument : command.outline->arguments) {
    if (argument.flag.empty()) {
      for (const std::string& choice : argument.choices)
        words.push_back(entry(choice, argument.help));
    } else {
      flags.push_back(entry(argument.flag, argument.help));
    }
  }
  const ArgumentOutline* positional = positional_of(*command.outline);
  std::string otherwise = "_files";
  if (positional == nullptr || !positional->takes_file) {
    otherwise = format("found=({}); _describe command found", spaced(words));
  }
  return format(
      "    (\"{}\")\n"
      "      if [[ ${{words[CURRENT]}} == -* ]]; then\n"
      "        found=({})\n"
      "        _describe -o flag found\n"
      "      else\n"
      "        {}\n"
      "      fi ;;\n",
      command.path, spaced(flags), otherwise);
}

}  // namespace

std::string zsh_completion(const CommandOutline& root) {
  const std::vector<CommandAt> commands = all_commands(root);
  std::string script = kOpening;
  for (const CommandAt& command : commands) {
    if (command.outline != &root) {
      script += format("      (\"{}\") at=\"$at $word\" ;;\n", command.path);
    }
  }
  script += "    esac\n  done\n  case \"$at $previous\" in\n";
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
