// harmonics completion: scripts for bash, zsh and fish.
#include "completion.h"

#include <harmonics/console/terminal.h>

#include "subcommands.h"

namespace harmonics {
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

std::string spaced(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : " ") + word;
  return all;
}

std::string shell_quote(std::string_view text) {
  std::string quoted = "'";
  for (const char letter : text) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

int completion(const CompletionCommand& command) {
  const CommandOutline root = command_outline();
  switch (command.shell) {
    case Shell::kBash: write_text(Stream::kOutput, bash_completion(root)); break;
    case Shell::kZsh: write_text(Stream::kOutput, zsh_completion(root)); break;
    case Shell::kFish: write_text(Stream::kOutput, fish_completion(root)); break;
  }
  return kExitDone;
}

}  // namespace harmonics
