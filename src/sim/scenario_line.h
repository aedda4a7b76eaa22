// The words of a scenario's line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/cluster/event.h>

namespace harmonics::inline in_sim {

/// Words separated by spaces, taken one after the other.
class ScenarioLine {
 public:
  ScenarioLine(std::string_view text, std::size_t number);

  [[nodiscard]] bool done() const { return next_ == words_.size(); }
  std::string word();
  std::uint64_t number();
  AttemptId attempt();
  /// "5s", "200ms".
  Nanoseconds duration();
  /// A "key=value"; false when there is none.
  bool option(std::string& key, std::string& value);
  [[noreturn]] void broken(std::string_view what) const;

  /// The rest of the line as a task: a name and key=value.
  TaskSpec task();
  Quota quota();
  /// gpus=2 memory=24576 cpus=4 host=1000 identity=x has=1.1,2.1:launched,3.1:failed
  HelloMessage hello();
  EndResult result();

 private:
  AttemptReport report(std::string_view text);
  /// Sets what a task asks for beyond numbers; false for another key.
  bool wish(TaskSpec& spec, const std::string& key, const std::string& value) const;
  std::uint64_t to_number(std::string_view text) const;

  std::vector<std::string> words_;
  std::size_t next_ = 0;
  std::size_t line_;
};

}  // namespace harmonics::inline in_sim
