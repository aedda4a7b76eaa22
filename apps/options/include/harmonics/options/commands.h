// What a user can ask for: one struct per subcommand, filled by parse_command_line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include <harmonics/graph/harp.h>

namespace harmonics {

enum class OutputStyle { kTable, kJson, kQuiet };

/// `NAME=SPEC`: a producer with its source, or a consumer with its destination.
struct Binding {
  std::string name;
  std::string spec;
};

/// harmonics graph show
struct GraphShowCommand {
  std::filesystem::path file;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics graph check
struct GraphCheckCommand {
  std::filesystem::path file;
};

enum class DrawingFormat { kDot, kSvg };

/// harmonics graph dot, harmonics graph svg
struct GraphDrawCommand {
  DrawingFormat format = DrawingFormat::kDot;
  std::filesystem::path file;
  /// Empty: standard output.
  std::filesystem::path out;
};

/// harmonics graph zoo
struct GraphZooCommand {
  /// Empty: list the names.
  std::string name;
  std::filesystem::path out;
};

/// harmonics train
struct TrainCommand {
  std::filesystem::path file;
  std::vector<Binding> bindings;
  /// The flags that were given out of train_setting_rules(), as key and text; `line` is 0.
  std::vector<Setting> settings;
  /// Empty: none.
  std::filesystem::path checkpoint;
  std::int64_t checkpoint_every = 0;
  bool resume = false;
  std::filesystem::path metrics;
  std::filesystem::path weights;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics run
struct RunCommand {
  std::filesystem::path file;
  std::filesystem::path weights;
  std::vector<Binding> bindings;
  std::vector<Binding> outputs;
  /// batch_size, parts, threads and backend, where given.
  std::vector<Setting> settings;
  OutputStyle output = OutputStyle::kTable;
};

/// harmonics doctor
struct DoctorCommand {
  OutputStyle output = OutputStyle::kTable;
};

enum class Shell { kBash, kZsh, kFish };

/// harmonics completion
struct CompletionCommand {
  Shell shell = Shell::kBash;
};

using Command = std::variant<GraphShowCommand, GraphCheckCommand, GraphDrawCommand, GraphZooCommand,
                             TrainCommand, RunCommand, DoctorCommand, CompletionCommand>;

}  // namespace harmonics
