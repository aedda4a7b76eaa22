// Kinds of options that several programs and subcommands have. CLI11 is seen here.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/nearest_word.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_arguments {

/// Wraps a function that throws an Error as a CLI11 check.
template <typename Check>
std::function<std::string(const std::string&)> check_by(Check check) {
  return [check](const std::string& text) {
    try {
      check(text);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
}

/// An option whose value is the name of a file.
inline CLI::Option* add_path(CLI::App& app, const std::string& name, std::filesystem::path& path,
                             const std::string& help) {
  return app
      .add_option_function<std::string>(
          name, [&path](const std::string& text) { path = text; }, help)
      ->type_name("FILE");
}

/// The same for a folder.
inline CLI::Option* add_folder(CLI::App& app, const std::string& name, std::filesystem::path& path,
                               const std::string& help) {
  return add_path(app, name, path, help)->type_name("FOLDER");
}

/// An option whose value is text that is kept as it is.
inline CLI::Option* add_text(CLI::App& app, const std::string& name, std::string& value,
                             const std::string& placeholder, const std::string& help) {
  return app
      .add_option_function<std::string>(
          name, [&value](const std::string& text) { value = text; }, help)
      ->type_name(placeholder);
}

/// The same, repeatable.
inline CLI::Option* add_texts(CLI::App& app, const std::string& name,
                              std::vector<std::string>& values, const std::string& placeholder,
                              const std::string& help) {
  return app.add_option(name, values, help)->type_name(placeholder)->allow_extra_args(false);
}

/// A CLI11 check of a value that is one of "a|b|c".
inline std::function<std::string(const std::string&)> check_choice(const std::string& choices) {
  return [choices, names = CLI::detail::split(choices, '|')](const std::string& text) {
    if (std::ranges::find(names, text) != names.end()) return std::string();
    return format("'{}' is none of {}", text, choices);
  };
}

/// One option whose value is one of "a|b|c", kept as text.
inline CLI::Option* add_name(CLI::App& app, const std::string& name, std::string& value,
                             const std::string& choices, const std::string& help) {
  return add_text(app, name, value, choices, help)->check(check_choice(choices));
}

/// One option whose value is one of the names; `value` gets what stands beside it.
template <typename Value>
CLI::Option* add_choice(CLI::App& app, const std::string& name, Value& value,
                        const std::vector<std::pair<std::string, Value>>& choices,
                        const std::string& help) {
  std::string names;
  for (const auto& [word, meaning] : choices) names += (names.empty() ? "" : "|") + word;
  return app
      .add_option_function<std::string>(
          name,
          [&value, choices](const std::string& text) {
            for (const auto& [word, meaning] : choices) {
              if (word == text) value = meaning;
            }
          },
          help)
      ->type_name(names)
      ->check(check_choice(names));
}

/// One option whose value is one of "a|b|c"; `value` gets the number of the choice.
template <typename Value>
CLI::Option* add_choice(CLI::App& app, const std::string& name, Value& value,
                        const std::string& names, const std::string& help) {
  std::vector<std::pair<std::string, Value>> choices;
  for (const std::string& word : CLI::detail::split(names, '|')) {
    choices.emplace_back(word, static_cast<Value>(choices.size()));
  }
  return add_choice(app, name, value, choices, help);
}

inline std::int64_t whole_number(const std::string& text, std::int64_t least, std::int64_t most) {
  const auto value = number_from<std::int64_t>(text);
  if (!value || *value < least || *value > most) {
    fail(ErrorCode::kInvalidArgument, "'{}' is not a whole number from {} to {}", text, least,
         most);
  }
  return *value;
}

/// From..to, both included.
struct Range {
  std::int64_t least;
  std::int64_t most;
};

/// `value` is an integer, or an optional one that stays empty when the flag is not given.
template <typename Value>
CLI::Option* add_whole(CLI::App& app, const std::string& name, Value& value, Range range,
                       const std::string& help) {
  return app
      .add_option_function<std::string>(
          name,
          [&value, range](const std::string& text) {
            value = whole_number(text, range.least, range.most);
          },
          help)
      ->type_name("N")
      ->check(check_by([range](const std::string& text) {
        static_cast<void>(whole_number(text, range.least, range.most));
      }));
}

/// Keeps the lines of an example as they are.
inline std::string example(const std::string& lines) { return "Example:\n" + lines; }

/// "--epochs" and all other long names of the flags of a program or subcommand.
inline std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// "has no flag '--epoch'; did you mean '--epochs'?"
inline std::string has_no_flag(const CLI::App& app, const std::string& flag) {
  return format("has no flag '{}'{}", flag, suggestion(flag, flag_names(app)));
}

}  // namespace harmonics::inline in_arguments
