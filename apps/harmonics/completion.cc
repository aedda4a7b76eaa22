// harmonics completion: scripts for bash, zsh and fish.
#include "completion.h"

#include <harmonics/base/format.h>
#include <harmonics/base/listed.h>
#include <harmonics/console/terminal.h>

#include "subcommands.h"

namespace harmonics::inline in_front {
namespace {

void collect(const CommandOutline& command, const std::string& path, std::vector<CommandAt>& all) {
  all.push_back({path, &command});
  for (const CommandOutline& sub : command.subcommands) {
    collect(sub, path + " " + sub.name, all);
  }
}

}  // namespace

std::vector<CommandAt> all_commands(const CommandOutline& root) {
  std::vector<CommandAt> all;
  collect(root, root.name, all);
  return all;
}

const ArgumentOutline* positional_of(const CommandOutline& command) {
  for (const ArgumentOutline& argument : command.arguments) {
    if (argument.flag.empty()) return &argument;
  }
  return nullptr;
}

std::string spaced(const std::vector<std::string>& words) { return joined(words, " "); }

std::string shell_quote(std::string_view text) {
  std::string quoted = "'";
  for (const char letter : text) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

std::string case_script(const CommandOutline& root, const CaseScript& shell) {
  const std::vector<CommandAt> commands = all_commands(root);
  std::string script = shell.opening;
  for (const CommandAt& command : commands) {
    if (command.outline == &root) continue;
    script += format("      (\"{}\") at=\"$at $word\" ;;\n", command.path);
  }
  script += "    esac\n  done\n  case \"$at $previous\" in\n";
  for (const CommandAt& command : commands) {
    for (const ArgumentOutline& argument : command.outline->arguments) {
      if (argument.flag.empty() || !argument.takes_value) continue;
      const std::string action = shell.after_flag(argument);
      script += format("    (\"{} {}\") {}return ;;\n", command.path, argument.flag,
                       action.empty() ? action : action + "; ");
    }
  }
  script += "  esac\n  case \"$at\" in\n";
  for (const CommandAt& command : commands) {
    script +=
        format("    (\"{}\")\n      {} ;;\n", command.path, shell.at_command(*command.outline));
  }
  return script + shell.closing;
}

int completion(const CompletionCommand& command) {
  const CommandOutline root = command_outline();
  switch (command.shell) {
    case Shell::kBash: write_text(TextStream::kOutput, bash_completion(root)); break;
    case Shell::kZsh: write_text(TextStream::kOutput, zsh_completion(root)); break;
    case Shell::kFish: write_text(TextStream::kOutput, fish_completion(root)); break;
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_front
