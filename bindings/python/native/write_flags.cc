// harmonics_python_flags FILE: writes the module harmonics._flags, in which the flags of the
// command line are keywords with their types and their meaning. It runs while the package is built,
// so that a new flag or setting is said in one place.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/listed.h>
#include <harmonics/options/command_line.h>
#include <harmonics/settings/train_settings.h>

namespace harmonics {
namespace {

constexpr std::string_view kHead =
    R"("""Flags of the command line as keywords. The build writes this from the tables of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypedDict

from .task_refs import StrPath, TaskRef

__all__ = ['SWITCHES', 'SubmitFlags', 'TrainFlags', 'VerifyFlags']
)";

/// What Python calls a value that help shows as `placeholder`; empty for a text.
std::string_view named_type(std::string_view placeholder) {
  struct Named {
    std::string_view placeholder;
    std::string_view type;
  };
  static constexpr Named kNamed[] = {
      {"N", "int"},      {"X", "float"},      {"SHARE", "float"},    {"SECONDS", "float"},
      {"ID", "TaskRef"}, {"FILE", "StrPath"}, {"FOLDER", "StrPath"}, {"PATH", "StrPath"},
  };
  const auto* const found = std::ranges::find(kNamed, placeholder, &Named::placeholder);
  return found == std::end(kNamed) ? std::string_view() : found->type;
}

/// Of pairs, which come as a mapping.
std::string mapping_type(std::string_view placeholder) {
  if (placeholder == "NAME=N") return "Mapping[str, int]";
  if (placeholder == "NAME=SPEC") return "Mapping[str, str]";
  return placeholder == "KEY=VALUE" ? "Mapping[str, object]" : "";
}

bool is_word(std::string_view text) {
  const auto small = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  return !text.empty() && std::ranges::all_of(text, small);
}

/// Of one value: "int | Literal['auto']" for "N|auto".
std::string value_type(std::string_view placeholder) {
  std::vector<std::string> types;
  std::vector<std::string> words;
  for (std::size_t from = 0; from <= placeholder.size();) {
    const std::size_t end = std::min(placeholder.find('|', from), placeholder.size());
    const std::string_view one = placeholder.substr(from, end - from);
    from = end + 1;
    if (is_word(one)) {
      words.push_back(format("'{}'", one));
    } else if (named_type(one).empty()) {
      return "str";
    } else {
      types.emplace_back(named_type(one));
    }
  }
  if (!words.empty()) types.push_back(format("Literal[{}]", joined(words)));
  return joined(types, " | ");
}

std::string type_of(const ArgumentOutline& argument) {
  if (!argument.takes_value) return "bool";
  std::string_view placeholder = argument.placeholder;
  constexpr std::string_view kMore = " ...";
  if (placeholder.ends_with(kMore)) placeholder.remove_suffix(kMore.size());
  if (std::string pairs = mapping_type(placeholder); !pairs.empty()) return pairs;
  const std::string one = value_type(placeholder);
  if (!argument.repeatable) return one;
  return format("{0} | {1}[{0}]", one, one == "TaskRef" ? "Iterable" : "Sequence");
}

const CommandOutline& subcommand(const CommandOutline& root, std::string_view name) {
  const auto found = std::ranges::find(root.subcommands, name, &CommandOutline::name);
  if (found == root.subcommands.end()) fail(ErrorCode::kInternal, "there is no command '{}'", name);
  return *found;
}

std::string keyword_of(std::string_view flag) {
  std::string keyword(flag.substr(2));
  std::ranges::replace(keyword, '-', '_');
  return keyword;
}

void add_keyword(std::string& text, std::string_view keyword, std::string_view type,
                 std::string_view help) {
  if (help.find_first_of("\"\\") != help.npos)
    fail(ErrorCode::kInternal, "the help of '{}' cannot stand in a text of Python: {}", keyword,
         help);
  text += format("    {}: {}\n    \"\"\"{}\"\"\"\n", keyword, type, help);
}

std::string class_of(std::string_view name, std::string_view meaning) {
  return format("\n\nclass {}(TypedDict, total=False):\n    \"\"\"{}\"\"\"\n\n", name, meaning);
}

/// Whether it is the "--no-reproducible" of a "--reproducible".
bool switches_off(const ArgumentOutline& argument, const std::vector<ArgumentOutline>& all) {
  constexpr std::string_view kNo = "--no-";
  if (!argument.flag.starts_with(kNo)) return false;
  const std::string other = "--" + argument.flag.substr(kNo.size());
  return std::ranges::find(all, other, &ArgumentOutline::flag) != all.end();
}

/// The flags of a subcommand but `others`, as a class.
std::string class_of_flags(std::string_view name, const CommandOutline& command,
                           const std::set<std::string>& others) {
  std::string text = class_of(name, format("The flags of `harmonics {}`.", command.name));
  for (const ArgumentOutline& one : command.arguments) {
    if (one.flag.empty() || one.alias || others.contains(one.flag)) continue;
    if (switches_off(one, command.arguments)) continue;
    add_keyword(text, keyword_of(one.flag), type_of(one), one.help);
  }
  return text;
}

/// Those of `submit` are what tasks have: not whom it speaks to, and how it answers.
std::string submit_flags(const CommandOutline& root) {
  std::set<std::string> others = {"--dag", "--wait"};  // several tasks; `Client.wait`
  for (const ArgumentOutline& one : subcommand(root, "workers").arguments) others.insert(one.flag);
  return class_of_flags("SubmitFlags", subcommand(root, "submit"), others);
}

std::string train_flags() {
  std::string text =
      class_of("TrainFlags", "The settings of training, each a flag of `harmonics train`.");
  for (const TrainSettingRule& rule : train_setting_rules()) {
    add_keyword(text, rule.key, is_switch(rule) ? "bool" : value_type(rule.placeholder), rule.help);
  }
  return text;
}

std::string switches() {
  std::vector<std::string> keys;
  for (const TrainSettingRule& rule : train_setting_rules()) {
    if (is_switch(rule)) keys.push_back(format("'{}'", rule.key));
  }
  return format(
      "\n\nSWITCHES = frozenset({{{}}})\n\"\"\"Those that are also switched off: False is "
      "--no-….\"\"\"\n",
      joined(keys));
}

void write(const char* path) {
  std::ofstream file(path, std::ios::trunc);
  const CommandOutline root = command_outline();
  file << kHead << submit_flags(root)
       << class_of_flags("VerifyFlags", subcommand(root, "verify"),
                         {"--help", "--output", "--explain"})
       << train_flags() << switches();
  if (!file.flush()) fail(ErrorCode::kUnavailable, "cannot write {}", path);
}

}  // namespace
}  // namespace harmonics

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: harmonics_python_flags FILE\n", stderr);
    return 2;
  }
  try {
    harmonics::write(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "harmonics_python_flags: %s\n", error.what());
    return 1;
  }
}
