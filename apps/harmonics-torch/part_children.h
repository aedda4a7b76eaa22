// The children of a run in several processes: one for each part, what they say and how they end.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <harmonics/transport/binding.h>
#include <harmonics/transport/transport.h>

#include "child_process.h"

namespace harmonics::inline in_torch_program {

/// Of chance: in what the parts show each other, and in the name of a run.
inline constexpr std::size_t kTokenBytes = 16;
inline constexpr std::size_t kRunNameBytes = 8;
/// How long a part that was started here waits for the others at the start.
inline constexpr std::int64_t kFirstContactSeconds = 600;

/// Chooses meeting places on this machine, each with a port (or a name of shared memory) of its
/// own.
class FreePlaces {
 public:
  FreePlaces(RemoteTransport transport, bool compress)
      : transport_(transport), compress_(compress) {}
  /// No port that was given out before, and none that is taken now.
  [[nodiscard]] RemoteBinding next(const std::string& name);

 private:
  const RemoteTransport transport_;
  const bool compress_;
  std::set<std::uint16_t> taken_;
};

/// Why an attempt came to nothing.
struct Failure {
  std::string what;
  bool killed = false;       // so that another attempt may work
  bool interrupted = false;  // as it was asked to
};

/// Owns the children, which die with it. One thread.
class PartChildren {
 public:
  /// `who` names a child in messages: "part 1 of 3".
  explicit PartChildren(std::function<std::string(std::size_t)> who) : who_(std::move(who)) {}

  /// Adds a child that runs this program with these arguments; all get the token.
  void start(const std::vector<std::string>& arguments, const std::string& token,
             const std::vector<std::string>& environment = {});
  /// The same in the place of one that has ended, or as a new one at the end.
  void start_again(std::size_t child, const std::vector<std::string>& arguments,
                   const std::string& token, const std::vector<std::string>& environment);
  /// Kills all of them.
  void clear();
  void signal(int number);
  void signal(std::size_t child, int number) { children_[child]->signal(number); }
  /// A line of orders.
  void tell(std::size_t child, const std::string& line) { children_[child]->tell(line); }

  /// Until a child says something, or a moment has passed.
  void wait_for_words(int milliseconds) const;
  /// Hands every line of events to `on_line` and sees who has ended. What a child said before it
  /// ended is heard before its end counts.
  void listen(const std::function<void(std::size_t child, const std::string& line)>& on_line);

  [[nodiscard]] std::size_t size() const { return children_.size(); }
  [[nodiscard]] bool has_ended(std::size_t child) const { return ends_[child].has_value(); }
  [[nodiscard]] bool all_have_ended() const;
  /// How it ended, as waitpid says, once its last words were heard.
  [[nodiscard]] std::optional<int> end_of(std::size_t child) const { return ends_[child]; }
  /// Why one that has ended did.
  [[nodiscard]] Failure failure_of(std::size_t child) { return describe(child, *ends_[child]); }
  /// A child that ended without being done, rather than because another one did. Those that only
  /// lost others are blamed when nobody else is found in time.
  [[nodiscard]] std::optional<Failure> find_failure(const std::function<bool(std::size_t)>& is_done,
                                                    bool asked_to_end);

 private:
  [[nodiscard]] Failure describe(std::size_t child, int status);

  const std::function<std::string(std::size_t)> who_;
  std::vector<std::unique_ptr<ChildProcess>> children_;
  std::vector<std::optional<int>> ends_;  // how those ended whose last words were heard
  std::optional<Deadline> cause_due_;
};

}  // namespace harmonics::inline in_torch_program
