// A child that runs this very program, and what it says.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/descriptor.h>

namespace harmonics::inline in_torch_program {

/// The most bytes of a child's standard error that are kept: its last ones.
inline constexpr std::size_t kMaxChildError = std::size_t{64} << 10;
/// The longest line of a child's events.
inline constexpr std::size_t kMaxEventLine = std::size_t{64} << 10;

/// Set in the environment of a child: the descriptor that it writes events to, one JSON text a
/// line, and the process that it belongs to.
inline constexpr const char* kEventsVariable = "HARMONICS_STAGE_EVENTS";
inline constexpr const char* kParentVariable = "HARMONICS_STAGE_PARENT";

/// Where a child finds its orders, a socket that holds lines; what they say is between it and
/// whoever started it.
inline constexpr int kChildOrders = 4;

/// Owns one child process. Destroying it kills the child and waits for its end. The child is in a
/// process group of its own, so that Ctrl-C reaches its parent alone. It begins with SIGINT and
/// SIGTERM held back, until it makes an InterruptWatch. One thread.
class ChildProcess {
 public:
  /// Starts this program with those arguments and, besides the variables above, `environment`
  /// ("NAME=value"). What goes wrong is an Error.
  ChildProcess(const std::vector<std::string>& arguments,
               const std::vector<std::string>& environment);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Descriptors to poll; -1 once the child has closed its end.
  [[nodiscard]] int events_descriptor() const { return events_.get(); }
  [[nodiscard]] int error_descriptor() const { return error_.get(); }

  /// What there is to read, without waiting: whole lines of events. One that is too long is an
  /// Error.
  [[nodiscard]] std::vector<std::string> read_events();
  void read_error();
  /// The end of what it wrote to standard error.
  [[nodiscard]] const std::string& error_text() const { return error_text_; }

  void signal(int number);
  /// Writes a line to its orders, without waiting. One that reads nothing for long is killed.
  void tell(const std::string& line);
  /// How it ended, as waitpid says; nothing while it runs. Does not wait.
  [[nodiscard]] std::optional<int> ended();

 private:
  /// Where the child finds its descriptors.
  struct ChildEnds {
    int events;
    int error;
    int orders;
  };
  void start(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
             const ChildEnds& ends);

  pid_t pid_ = -1;
  Descriptor events_;
  Descriptor error_;
  Descriptor orders_;
  std::string event_text_;
  std::string error_text_;
  std::optional<int> status_;
};

/// In a child: it dies with its parent, however that ends. Does nothing elsewhere.
void die_with_parent();

}  // namespace harmonics::inline in_torch_program
