// Options that several subcommands of harmonics have (private to options; CLI11 is seen here too).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <harmonics/arguments/option_kinds.h>
#include <harmonics/options/commands.h>
#include <harmonics/settings/train_settings.h>

namespace harmonics::inline in_options {

/// NAME=SPEC, repeatable; a name that is given twice is wrong usage.
void add_bindings(CLI::App& app, const std::string& flag, std::vector<Binding>& bindings,
                  const std::string& help);

/// --axis NAME=N, repeatable; a name that is given twice is wrong usage.
void add_axes(CLI::App& app, AxisValues& axes, const std::string& help);

/// The flag of a setting of training, in the order given.
void add_setting(CLI::App& app, const TrainSettingRule& rule, std::vector<Setting>& settings);

inline void add_output(CLI::App& app, OutputStyle& output) {
  add_choice(app, "--output", output, "table|json|quiet", "how results are printed (table)");
}

/// What workers and clients need alike; HARMONICS_SCHEDULER and its like and client.yml say it too.
void add_place(CLI::App& app, ServerAccess& access);
/// The same for a client, which waits for a server that is not up yet.
void add_access(CLI::App& app, ServerAccess& access);

/// A number of seconds, not negative.
void add_seconds(CLI::App& app, const std::string& name, double& value, const std::string& help);

inline void add_model_file(CLI::App& app, std::filesystem::path& path) {
  add_path(app, "FILE", path, "a graph in .harp text, or a name of 'harmonics graph zoo'")
      ->required()
      ->option_text("(required)");
}

}  // namespace harmonics::inline in_options
