// What a user submits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/cluster/ids.h>
#include <harmonics/cluster/needs.h>
#include <harmonics/cluster/pipeline.h>

namespace harmonics::inline in_cluster {

// Ceilings of one task; `check_task` refuses what is above.
inline constexpr std::size_t kMaxTaskNameBytes = 256;
inline constexpr std::size_t kMaxTaskTextBytes = 64 << 10;  // one argument, value or path
inline constexpr std::size_t kMaxTaskBytes = 256 << 10;     // all of its text together
inline constexpr std::size_t kMaxTaskEntries = 1024;        // params, env, command, artifacts, each
inline constexpr std::size_t kMaxTaskDependencies = 1024;
inline constexpr std::size_t kMaxTaskFiles = 256;
inline constexpr std::size_t kMaxTaskFileBytes = 512 << 10;  // all files together, with their names
/// Of task JSON: escapes make text larger, not by more than six times, and hex doubles files.
inline constexpr std::size_t kMaxTaskJsonBytes = 8 * (kMaxTaskBytes + kMaxTaskFileBytes);
inline constexpr std::uint32_t kMaxArrayTasks = 1'000'000;
inline constexpr std::uint32_t kMaxGangWorkers = 1024;
inline constexpr std::uint32_t kMaxTaskRetries = 1000;
inline constexpr std::uint32_t kMaxTaskLosses = 1'000'000;
inline constexpr std::uint32_t kUnlimitedLosses = 0xFFFF'FFFF;
inline constexpr std::int32_t kMaxTaskPriority = 1'000'000;  // and its negative
inline constexpr std::uint32_t kMaxTaskTimeoutSeconds = 366 * 24 * 3600;

/// What a worker does with a running task when its lease ends because the server cannot be reached.
/// The server starts another attempt only once the task must have been stopped.
enum class OnDisconnect : std::uint8_t {
  kStop,      ///< Stop it by the end of the lease.
  kForever,   ///< Go on; the server waits for this worker for as long as it takes.
  kContinue,  ///< Go on, and stop it by the end of the hold, which is many leases long.
};
[[nodiscard]] std::string_view to_string(OnDisconnect wish);

/// A file that travels with a task and lies in its folder when it starts (task_files.h).
struct TaskFile {
  std::string path{};  ///< Relative, below the task's folder.
  std::string data{};
  bool executable = false;

  bool operator==(const TaskFile&) const = default;
};

/// Files or none, in the room of a pointer and shared by copies. Compares by value.
class TaskFiles {
 public:
  TaskFiles() = default;
  TaskFiles(std::vector<TaskFile> files)
      : list_(files.empty() ? nullptr
                            : std::make_shared<const std::vector<TaskFile>>(std::move(files))) {}
  [[nodiscard]] bool empty() const { return list_ == nullptr; }
  [[nodiscard]] std::span<const TaskFile> all() const {
    return empty() ? std::span<const TaskFile>() : std::span<const TaskFile>(*list_);
  }
  bool operator==(const TaskFiles& other) const {
    return list_ == other.list_ || (list_ && other.list_ && *list_ == *other.list_);
  }

 private:
  std::shared_ptr<const std::vector<TaskFile>> list_;
};

/// A task as submitted: the fields of task JSON (docs/formats/task-json.md) with its defaults. A
/// value; it never changes after submission.
struct TaskSpec {
  std::string name{};
  std::uint32_t required_gpus = 1;  ///< Of each worker, if the task is a gang.
  /// Of its one device, if that is all that it needs of it: task JSON says "required_gpus": 0.25.
  std::uint32_t gpu_share = kWholeDevice;
  std::uint64_t min_gpu_memory_mb = 4096;
  TextPairs params{};                  ///< Exported as HARMONICS_PARAM_*.
  std::vector<std::string> command{};  ///< Empty: the built-in trainer, from `params`.
  TextPairs env{};
  std::string working_dir{};
  std::uint32_t cpus = 0;       ///< Cores of each worker that no other task may have.
  std::uint64_t memory_mb = 0;  ///< Host memory of each worker that no other task may have.
  std::uint32_t timeout_s = 0;  ///< 0: no limit.
  std::uint32_t max_retries = 0;
  std::uint32_t max_losses = 5;      ///< Lost with its worker so often, it fails; or unlimited.
  std::int32_t priority = 0;         ///< Larger goes first, and may displace smaller.
  std::uint32_t gang = 1;            ///< That many different workers at once, or none.
  std::uint32_t array = 0;           ///< 0: one task; n: tasks with index 0 to n - 1.
  std::vector<TaskId> depends_on{};  ///< Must have succeeded; an array's first id means all of it.
  std::string idempotency_key{};     ///< The same key from the same user is the same task.
  std::vector<std::string> artifacts{};
  OnDisconnect on_disconnect = OnDisconnect::kContinue;
  /// Set: the task is a training in stages. `gang` is then the number of stages, or 1 where the
  /// plan decides; later attempts go on with the workers that are left.
  MaybePipeline pipeline{};
  /// Put into the task's own folder. `working_dir` is then below that folder, or empty.
  TaskFiles files{};
  MaybeTerms terms{};
  TaskVariants variants{};
  /// It is queued although no worker that is known could ever run it; else it is refused.
  bool wait_for_machines = false;
  std::string container{};  ///< The image that its command runs in; empty: none.

  bool operator==(const TaskSpec&) const = default;
  /// How many tasks this makes.
  [[nodiscard]] std::uint32_t count() const { return array == 0 ? 1 : array; }
};

/// How often a pipeline goes back to its checkpoint after a failure, unless it says otherwise.
inline constexpr std::uint32_t kPipelineRetries = 10;
/// A pipeline goes on from its checkpoint with the workers that are left, so it need not wait long.
inline constexpr OnDisconnect kPipelineOnDisconnect = OnDisconnect::kStop;
/// Makes the task a pipeline, its gang included.
void set_pipeline(TaskSpec& spec, PipelineSpec pipeline);

/// The cores of a task that does not say how many: one where it asks for no device, since it must
/// run on something. Stages of pipelines stand on workers of their own and need not be counted.
[[nodiscard]] std::uint32_t default_cpus(const TaskSpec& spec);

/// What the task itself asks for, or with a number from 1 on that variant of it.
[[nodiscard]] Needs needs_of(const TaskSpec& spec);
[[nodiscard]] Needs needs_of(const TaskSpec& spec, std::uint32_t variant);
/// 0 for the task itself and the numbers of its variants, the heaviest first.
[[nodiscard]] std::vector<std::uint32_t> variant_order(const TaskSpec& spec);
/// The task as that variant of it would have been submitted, without its variants.
[[nodiscard]] TaskSpec with_variant(const TaskSpec& spec, std::uint32_t variant);

/// Throws an `Error` (kInvalidArgument) that names the field when a value is outside its limits.
void check_task(const TaskSpec& spec);

/// Throws an `Error` (kInvalidArgument) for an artifact that is no relative path, or leaves its
/// folder: for new tasks only, so that what a store holds can always be read.
void check_artifacts(const TaskSpec& spec);

/// Reads task JSON; `where` names the text in errors. An unknown key is an error that suggests the
/// nearest known one. The result has passed `check_task`.
[[nodiscard]] TaskSpec parse_task(std::string_view json, std::string_view where);
/// Sets the one field that task JSON calls `key`, as `parse_task` would.
void set_task_field(TaskSpec& spec, std::string_view key, const Json& value,
                    std::string_view where);
/// Writes the fields that differ from their defaults, and always the seed's four. `parse_task` of
/// the result equals `spec`.
[[nodiscard]] std::string write_task(const TaskSpec& spec);

}  // namespace harmonics::inline in_cluster
