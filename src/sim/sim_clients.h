// Users who submit, cancel and ask again when no answer comes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <harmonics/cluster/effect.h>
#include <harmonics/cluster/event.h>

#include "witness.h"
#include "world.h"

namespace harmonics::inline in_sim {

class SimClients {
 public:
  /// `send` carries an event to whoever leads now, or loses it. `minded`: an administrator gives up
  /// workers that will never come back, so that tasks may wait for theirs for ever.
  SimClients(World& world, Witness& witness, bool minded, std::function<void(ServerEvent)> send);

  void answered(const Answer& answer);
  /// An administrator gives the worker up; refused while it is connected.
  void forget(const std::string& worker);
  /// No new tasks from now on.
  void stop() { stopped_ = true; }
  /// Every question has been answered.
  [[nodiscard]] bool idle() const { return stopped_ && open_.empty(); }

 private:
  void submit();
  TaskSpec random_spec();
  void add_wishes(TaskSpec& spec);
  void ask(ServerEvent event);
  void repeat(RequestId request);

  World& world_;
  Witness& witness_;
  bool minded_;
  std::function<void(ServerEvent)> send_;
  std::uint64_t requests_ = 0;
  std::map<RequestId, ServerEvent> open_;
  std::vector<TaskId> tasks_;  ///< First ids of what was acknowledged.
  bool stopped_ = false;
};

}  // namespace harmonics::inline in_sim
