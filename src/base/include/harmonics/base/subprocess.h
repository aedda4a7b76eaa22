// Programs that this one starts, and how they end. What runs tasks for other users is not here: the
// worker's launcher, supervisor and task processes differ for cause.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace harmonics::inline in_base {

/// What a program begins with. One thread; `start` may be called again.
class ProgramStart {
 public:
  /// `words` are its arguments, the name that it sees of itself first.
  ProgramStart(std::filesystem::path program, std::vector<std::string> words);

  /// Our descriptor is its descriptor `theirs`. All others are closed for it if they were opened so
  /// (O_CLOEXEC), and its own three are ours unless placed.
  ProgramStart& place(int ours, int theirs);
  /// It reads nothing from this descriptor, and what it writes there is lost.
  ProgramStart& mute(int theirs);
  /// What it writes to this descriptor is the content of a file that only its owner may read.
  ProgramStart& write_to(int theirs, std::filesystem::path file);
  /// It has these variables ("NAME=value") instead of ours.
  ProgramStart& environment(std::vector<std::string> variables);
  /// It leads a process group of its own, so that a terminal's signals do not reach it.
  ProgramStart& own_group();
  /// These signals wait until it asks for them; all others come. Without this it inherits ours.
  ProgramStart& hold_back(std::initializer_list<int> signals);

  struct Started {
    pid_t pid = -1;   ///< To be waited for by who started it.
    int failure = 0;  ///< errno where it could not be started; `pid` is -1 then.
  };
  [[nodiscard]] Started try_start() const;
  /// The same; a failure is an Error that names the program.
  [[nodiscard]] pid_t start() const;

 private:
  struct End {
    int theirs = -1;
    int ours = -1;               ///< Or else the file.
    std::filesystem::path file;  ///< Empty: nothing.
  };

  std::filesystem::path program_;
  std::vector<std::string> words_;
  std::vector<End> ends_;
  std::optional<std::vector<std::string>> variables_;
  std::optional<std::vector<int>> held_back_;
  bool own_group_ = false;
};

/// Waits until the child has ended; its status as waitpid gives it. There is no deadline: kill it
/// first where there must be one.
int wait_for_program(pid_t child);
/// The same if it has ended already, and nothing if not.
[[nodiscard]] std::optional<int> ended_program(pid_t child);
/// Kills the child and waits until it is gone. Nothing to do for a pid that is none (-1).
void kill_program(pid_t child);

}  // namespace harmonics::inline in_base
