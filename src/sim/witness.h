// Sees everything, and knows what must never be seen.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <harmonics/cluster/cluster_state.h>
#include <harmonics/cluster/fact.h>
#include <harmonics/cluster/message.h>

namespace harmonics::inline in_sim {

/// Keeps the truth beside the cluster. Every broken promise is an `Error` (kInternal) that says
/// which.
class Witness {
 public:
  /// A task's process begins on a machine. It must be the first of its attempt there, the only
  /// attempt of its task, and with those beside it have no more of a device than there is.
  void launched(std::size_t machine, AttemptId id, DeviceSet devices, std::uint32_t share);
  /// It is gone, with this result (kLost: the machine died).
  void ended(std::size_t machine, AttemptId id, const EndResult& result);

  /// It was stopped because its worker heard nothing; `leased`: although the lease still ran.
  void cut_off(AttemptId id, OnDisconnect wish, bool leased) const;

  /// Facts as they become durable.
  void stored(const std::vector<Fact>& facts);
  void acknowledged(TaskId first, std::uint32_t count);

  /// Whether every acknowledged task has ended.
  [[nodiscard]] bool all_ended() const;
  [[nodiscard]] std::string unfinished() const;
  /// When all has come to rest: what `state` (read back from the disk) says is what happened.
  void check_rest(const ClusterState& state) const;

  [[nodiscard]] std::size_t tasks() const { return acknowledged_.size(); }
  [[nodiscard]] std::size_t attempts() const { return begun_.size(); }

 private:
  struct Process {
    std::size_t machine;
    AttemptId id;
    DeviceSet devices;
    std::uint32_t share;
  };
  /// What a worker has given out, counted here alone.
  struct Given {
    std::map<std::uint16_t, std::uint32_t> devices;  ///< In units of kWholeDevice.
    std::map<std::string, std::uint64_t> resources;
    std::map<std::string, std::uint32_t> groups;
    std::uint64_t cpus = 0;
  };
  void count(const TaskSpec& spec, const Member& member);
  void discount(const TaskSpec& spec, const Member& member);
  void check_quota(TaskId started) const;
  void see(const TasksSubmitted& fact);
  void see(const AttemptStarted& fact);
  void see(const MemberEnded& fact);
  void see(const TaskEnded& fact);
  template <typename Other>
  void see(const Other&) {}

  std::map<WorkerId, Given> given_;
  std::vector<Process> alive_;
  std::set<std::pair<std::size_t, AttemptId>> begun_;
  std::multimap<AttemptId, EndKind> truth_;  ///< How processes of an attempt really ended.
  ClusterState state_;                       ///< What is durable.
  std::map<TaskId, TaskOutcome> outcomes_;
  std::set<std::pair<AttemptId, std::uint32_t>> member_ends_;
  std::set<TaskId> acknowledged_;
  std::set<TaskId> open_;  ///< Acknowledged and not ended.
};

}  // namespace harmonics::inline in_sim
