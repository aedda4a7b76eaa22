// The cluster as the server knows it: tasks, workers, users. Changed by facts alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <harmonics/cluster/ids.h>
#include <harmonics/cluster/message.h>
#include <harmonics/cluster/task.h>
#include <harmonics/cluster/worker.h>

namespace harmonics::inline in_cluster {

/// What was submitted: one task, or an array whose tasks share it.
struct Submission {
  TaskId first{};
  TaskSpec spec{};
  std::string user{};
  Time at{};
  bool operator==(const Submission&) const = default;
};

/// A worker's part in an attempt. Its devices are leased until `ended` is set.
struct Member {
  WorkerId worker{};
  DeviceSet devices{};
  bool launched = false;
  std::optional<EndResult> ended{};
  std::uint8_t variant = 0;  ///< Of the task, by which it was placed; 0: the task itself.
  bool operator==(const Member&) const = default;
};

/// How a task ended, for good.
enum class TaskOutcome : std::uint8_t {
  kSucceeded,
  kFailed,            ///< Its last attempt failed and no retry was left.
  kCancelled,         ///< A user said so.
  kDependencyFailed,  ///< A task that it depends on did not succeed.
};
[[nodiscard]] std::string_view to_string(TaskOutcome outcome);

// The states of a task. Waiting -> Pending -> Active -> Ended, with Active -> Delayed -> Pending (a
// retry backs off) and Active -> Pending (preempted).
struct Waiting {
  std::uint32_t dependencies = 0;  ///< Submissions that have not ended yet.
  bool operator==(const Waiting&) const = default;
};
struct Pending {
  bool operator==(const Pending&) const = default;
};
struct Delayed {
  Time until{};
  bool operator==(const Delayed&) const = default;
};
struct Active {
  Time since{};
  std::vector<Member> members{};         ///< In order of gang rank.
  std::optional<StopReason> stopping{};  ///< The server has asked the members to stop.
  std::string plan{};                    ///< Of a pipeline's stages; empty for other tasks.
  bool measures = false;                 ///< The pipeline's model is measured, not trained.
  bool operator==(const Active&) const = default;
};
struct Ended {
  TaskOutcome outcome = TaskOutcome::kSucceeded;
  Time at{};
  std::unique_ptr<const EndResult> last{};  ///< Of the last attempt; null if there was none.
  std::string plan{};                       ///< Of the last attempt of a pipeline.

  Ended() = default;
  Ended(TaskOutcome outcome, Time at, const std::optional<EndResult>& last, std::string plan = {});
  Ended(const Ended& other);
  Ended(Ended&&) = default;
  Ended& operator=(Ended other);
  bool operator==(const Ended& other) const;
};
using TaskState = std::variant<Pending, Waiting, Delayed, Active, Ended>;
/// "waiting", "pending", "delayed", "active" or, once ended, the outcome.
[[nodiscard]] std::string_view state_name(const TaskState& state);

/// Earlier attempts of one task whose places are remembered; those before them are forgotten.
inline constexpr std::size_t kMaxPastAttempts = 16;

/// Where an earlier attempt ran, by gang rank.
struct PastAttempt {
  AttemptNumber attempt{};
  std::vector<WorkerId> places{};
  bool operator==(const PastAttempt&) const = default;
};

struct TaskRecord {
  TaskId id{};
  std::shared_ptr<const Submission> submission{};
  AttemptNumber attempts{};    ///< The latest; 0: never started.
  std::uint32_t failures = 0;  ///< Attempts that used up a retry.
  std::uint32_t losses = 0;    ///< Attempts that ended with their worker.
  std::uint32_t preemptions = 0;
  std::uint32_t refusals = 0;  ///< Attempts that their worker was unable to start.
  bool cancelled = false;      ///< Cancel was asked for; it ends as soon as it has stopped.
  Nanoseconds ran{};           ///< In earlier attempts that were stopped for others.
  std::uint32_t level = 0;     ///< The policy's, of when it was queued; no fact.
  /// Where the latest attempt runs or ran, by gang rank: that is where its output lies.
  std::vector<WorkerId> places{};
  std::vector<PastAttempt> past{};  ///< Oldest first, at most kMaxPastAttempts.
  TaskState state{};

  /// Of any attempt; null when it is not known (any more). Valid until the record changes.
  [[nodiscard]] const std::vector<WorkerId>* places_of(AttemptNumber attempt) const;

  /// Of a pipeline that runs or has ended; else empty.
  [[nodiscard]] const std::string& plan() const;

  [[nodiscard]] const TaskSpec& spec() const { return submission->spec; }
  [[nodiscard]] std::uint32_t array_index() const {
    return static_cast<std::uint32_t>(id.value - submission->first.value);
  }
  bool operator==(const TaskRecord&) const;  ///< Submissions compare by value.
};

/// A worker that the server knows, here or away.
struct WorkerRecord {
  WorkerId id{};
  WorkerSpec spec{};
  bool draining = false;  ///< Gets no new tasks.
  Time since{};
  bool operator==(const WorkerRecord&) const = default;
};

/// What an administrator grants a user. Zero means: no limit.
struct Quota {
  std::uint32_t max_gpus = 0;     ///< Leased at once.
  std::uint32_t max_active = 0;   ///< Tasks active at once.
  std::uint32_t max_waiting = 0;  ///< Tasks that have neither started nor ended.
  std::uint32_t weight = 1;       ///< Fair share: twice the weight, twice the devices. At least 1.
  bool operator==(const Quota&) const = default;
};

struct UserRecord {
  std::string name{};
  Quota quota{};
  std::uint64_t device_units = 0;  ///< Leased now, in shares of kWholeDevice.
  std::uint32_t active = 0;        ///< Tasks active now.
  std::uint64_t waiting = 0;
  bool operator==(const UserRecord&) const = default;
  /// Devices that it has, a share that is over counted as one.
  [[nodiscard]] std::uint32_t gpus() const {
    return static_cast<std::uint32_t>((device_units + kWholeDevice - 1) / kWholeDevice);
  }
};

}  // namespace harmonics::inline in_cluster
