#include <harmonics/options/command_line.h>

#include <algorithm>
#include <optional>

#include <harmonics/arguments/option_kinds.h>
#include <harmonics/base/escaped.h>
#include <harmonics/base/format.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/nearest_word.h>

#include "command_tree.h"

namespace harmonics::inline in_options {
namespace {

std::vector<CLI::App*> subcommands_of(CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> subcommand_names(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : subcommands_of(app)) {
    if (!sub->get_group().empty()) names.push_back(sub->get_name());  // what users call
  }
  return names;
}

std::string path_of(const CLI::App* app) {
  const std::string own = app->get_name();
  return app->get_parent() == nullptr ? own : path_of(app->get_parent()) + " " + own;
}

UsageAnswer usage_error(const CLI::App* app, const std::string& what) {
  return wrong_usage("harmonics", escaped(what), path_of(app));
}

// The subcommand that the words lead to. A word that should name a subcommand and does not is wrong
// usage, said better here than by CLI11, which only misses one.
std::variant<CLI::App*, UsageAnswer> find_subcommand(CLI::App& root, int argc,
                                                     const char* const* argv) {
  CLI::App* app = &root;
  for (int i = 1; i < argc && !subcommands_of(*app).empty(); ++i) {
    const std::string word = argv[i];
    if (word.starts_with('-')) continue;
    const std::vector<std::string> names = subcommand_names(*app);
    const auto is_named = [&](const CLI::App* sub) { return sub->get_name() == word; };
    if (std::ranges::none_of(subcommands_of(*app), is_named)) {
      return usage_error(app, format("'{}' is no command, there are {}{}", word, listed(names),
                                     suggestion(word, names)));
    }
    app = app->get_subcommand(word);
  }
  return app;
}

/// A word that looks like a flag (not a negative number) and is none of the command's.
struct UnknownFlag {
  std::string name;
  std::string program;  ///< The first word before it that is neither flag nor value; may be empty.
};

CLI::Option* find_flag(CLI::App& app, const std::string& name) {
  for (CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    if (CLI::Option* option = at->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

/// The first unknown flag before "--". CLI11 stumbles over what follows it first and would name
/// that.
std::optional<UnknownFlag> unknown_flag(CLI::App& app, int argc, const char* const* argv) {
  UnknownFlag found;
  int depth = 0;
  for (CLI::App* at = &app; at->get_parent() != nullptr; at = at->get_parent()) ++depth;
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string word = argv[i];
    const bool looks_so = word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9');
    if (!looks_so) {
      // The first words name the command itself.
      if (depth > 0) {
        --depth;
      } else if (found.program.empty()) {
        found.program = word;
      }
      continue;
    }
    const std::size_t equals = word.find('=');
    found.name = word.substr(0, equals);
    // -vf may be -v -f or -v with the value f: only its first letter is looked at.
    const std::string known = word[1] == '-' ? found.name : word.substr(0, 2);
    const CLI::Option* option = find_flag(app, known);
    if (option == nullptr) return found;
    const bool takes_next = option->get_items_expected_min() > 0 && equals == word.npos &&
                            (word[1] == '-' || word.size() == 2);
    if (takes_next) ++i;
  }
  return std::nullopt;
}

std::string flag_text(CLI::App& app, const UnknownFlag& flag) {
  const std::string path = path_of(&app);
  const bool runs_programs = app.get_option_no_throw("COMMAND") != nullptr;
  if (runs_programs && !flag.program.empty()) {
    return format(
        "'{}' has no flag '{}'; if it is one of '{}', put '--' before the program: {} -- {} {} ...",
        path, flag.name, flag.program, path, flag.program, flag.name);
  }
  return format("'{}' {}", path, has_no_flag(app, flag.name));
}

std::string describe(const CLI::ParseError& error, CLI::App& root, CLI::App& app) {
  const std::vector<std::string> rest = root.remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !rest.empty()) {
    return format("'{}' takes no further argument '{}'", path_of(&app), rest.front());
  }
  if (!subcommands_of(app).empty()) {
    return format("'{}' needs a command: {}", path_of(&app), listed(subcommand_names(app)));
  }
  const std::string text = error.what();
  if (text.find("At Most 1") != std::string::npos) {
    return text.substr(0, text.find(':')) + " is given more than once";
  }
  if (text.ends_with(" missing")) return text.substr(0, text.find(':')) + " needs a value";
  return text;
}

std::string last_line_break(std::string text) {
  while (text.ends_with("\n\n")) text.pop_back();
  return text.ends_with('\n') ? text : text + "\n";
}

ArgumentOutline outline_of(const CLI::Option& option) {
  ArgumentOutline outline;
  outline.help = option.get_description();
  const std::string& placeholder = outline.placeholder = option.get_type_name();
  outline.takes_value = option.get_items_expected_max() > 0;
  outline.repeatable = option.get_items_expected_max() > 1;
  outline.takes_file = placeholder == "FILE" || placeholder == "FOLDER";
  if (placeholder.find('|') != std::string::npos) {
    outline.choices = CLI::detail::split(placeholder, '|');
    // Words in capitals stand for something else.
    std::erase_if(outline.choices, [](const std::string& word) {
      return word.find("...") != word.npos ||
             std::ranges::any_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
    });
  }
  return outline;
}

CommandOutline outline_of(CLI::App& app) {
  CommandOutline outline{app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    ArgumentOutline argument = outline_of(*option);
    if (option->get_positional()) outline.arguments.push_back(argument);
    for (const std::string& name : option->get_lnames()) {
      argument.flag = "--" + name;
      argument.alias = name != option->get_lnames().front();
      outline.arguments.push_back(argument);
    }
  }
  for (CLI::App* sub : subcommands_of(app)) outline.subcommands.push_back(outline_of(*sub));
  return outline;
}

}  // namespace

std::variant<Command, UsageAnswer> parse_command_line(int argc, const char* const* argv) {
  CommandTree tree;
  const auto found = find_subcommand(tree.root(), argc, argv);
  if (const UsageAnswer* answer = std::get_if<UsageAnswer>(&found)) return *answer;
  CLI::App& app = *std::get<CLI::App*>(found);
  try {
    tree.root().parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return UsageAnswer{kExitDone, last_line_break(tree.root().help())};
  } catch (const CLI::CallForVersion& version) {
    return UsageAnswer{kExitDone, last_line_break(version.what())};
  } catch (const CLI::ParseError& error) {
    const std::optional<UnknownFlag> flag = unknown_flag(app, argc, argv);
    return usage_error(&app, flag ? flag_text(app, *flag) : describe(error, tree.root(), app));
  }
  return *tree.command();
}

CommandOutline command_outline() {
  CommandTree tree;
  return outline_of(tree.root());
}

}  // namespace harmonics::inline in_options
