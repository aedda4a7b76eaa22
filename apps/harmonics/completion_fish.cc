#include <harmonics/base/format.h>

#include "completion.h"

namespace harmonics::inline in_front {
namespace {

constexpr const char* kFishOpening = R"(# fish completion for harmonics; load it with
#   harmonics completion fish | source
function __harmonics_at
    set -l at harmonics
    for word in (commandline -opc)[2..-1]
        switch "$at $word"
            case )";

constexpr const char* kFishClosing = R"(
                set at "$at $word"
        end
    end
    test "$at" = "$argv[1]"
end

complete -c harmonics -f
)";

std::string fish_quote(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') quoted += '\\';
    quoted += letter;
  }
  return quoted + "'";
}

std::string argument_text(const ArgumentOutline& argument) {
  std::string text;
  if (!argument.flag.empty()) text += " -l " + argument.flag.substr(2);
  if (argument.takes_file) {
    text += argument.flag.empty() ? " -F" : " -r -F";
  } else if (!argument.choices.empty()) {
    text += argument.flag.empty() ? "" : " -x";
    text += " -a " + fish_quote(spaced(argument.choices));
  } else if (argument.takes_value && !argument.flag.empty()) {
    text += " -x";
  }
  return text + " -d " + fish_quote(argument.help);
}

}  // namespace

std::string fish_completion(const CommandOutline& root) {
  const std::vector<CommandAt> commands = all_commands(root);
  std::vector<std::string> paths;
  for (const CommandAt& command : commands) {
    if (command.outline != &root) paths.push_back(fish_quote(command.path));
  }
  std::string script = kFishOpening + spaced(paths) + kFishClosing;
  for (const CommandAt& command : commands) {
    const std::string prefix = format("complete -c harmonics -n {}",
                                      fish_quote(format("__harmonics_at \"{}\"", command.path)));
    for (const CommandOutline& sub : command.outline->subcommands) {
      script += format("{} -a {} -d {}\n", prefix, sub.name, fish_quote(sub.help));
    }
    for (const ArgumentOutline& argument : command.outline->arguments) {
      script += prefix + argument_text(argument) + "\n";
    }
  }
  return script;
}

}  // namespace harmonics::inline in_front
