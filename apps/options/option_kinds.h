// Kinds of options that several subcommands have (private to options; CLI11 is seen here too).
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/options/commands.h>

namespace harmonics::inline in_options {

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

/// One option whose value is one of "a|b|c"; `value` gets the number of the choice.
template <typename Value>
CLI::Option* add_choice(CLI::App& app, const std::string& name, Value& value,
                        const std::string& choices, const std::string& help) {
  const std::vector<std::string> names = CLI::detail::split(choices, '|');
  return app
      .add_option_function<std::string>(
          name,
          [&value, names](const std::string& text) {
            value = static_cast<Value>(std::ranges::find(names, text) - names.begin());
          },
          help)
      ->type_name(choices)
      ->check(check_choice(choices));
}

inline std::int64_t whole_number(const std::string& text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || value < least || value > most) {
    fail(ErrorCode::kInvalidArgument, "'{}' is not a whole number from {} to {}", text, least,
         most);
  }
  return value;
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

/// NAME=SPEC, repeatable; a name that is given twice is wrong usage.
void add_bindings(CLI::App& app, const std::string& flag, std::vector<Binding>& bindings,
                  const std::string& help);

/// The flag of a setting of training, in the order given.
void add_setting(CLI::App& app, const TrainSettingRule& rule, std::vector<Setting>& settings);

inline void add_output(CLI::App& app, OutputStyle& output) {
  add_choice(app, "--output", output, "table|json|quiet", "how results are printed (table)");
}

inline void add_model_file(CLI::App& app, std::filesystem::path& path) {
  add_path(app, "FILE", path, "a graph in .harp text")->required()->option_text("(required)");
}

/// Keeps the lines of an example as they are.
inline std::string example(const std::string& lines) { return "Example:\n" + lines; }

}  // namespace harmonics::inline in_options
