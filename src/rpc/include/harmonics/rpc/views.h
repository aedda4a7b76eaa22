// What clients may ask a cluster and what they are told: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/cluster/effect.h>
#include <harmonics/cluster/event.h>
#include <harmonics/cluster/reactor.h>

namespace harmonics::inline in_rpc {

/// How many tasks one page of a listing holds at most.
inline constexpr std::uint32_t kMaxTasksPerPage = 1000;
/// And about how many bytes; a single task may be longer.
inline constexpr std::size_t kMaxTaskPageBytes = 4 << 20;
/// The longest that one question waits for tasks to end; ask again after it.
inline constexpr std::chrono::milliseconds kMaxWaitPerCall{30'000};

struct MemberView {
  std::string worker;
  std::vector<std::string> devices;  ///< That it holds: none once it has ended.
  bool launched = false;
  std::string progress{};  ///< The newest line that it reported, JSON; empty: none.
};

/// A file that came with a task, without what is in it.
struct FileView {
  std::string path;
  std::uint64_t bytes = 0;
  bool executable = false;
  bool operator==(const FileView&) const = default;
};

struct TaskView {
  TaskId id;
  TaskId first;   ///< Of its array.
  TaskSpec spec;  ///< Without its files.
  std::string user;
  std::string state;  ///< As `state_name` says it.
  std::uint32_t attempts = 0;
  std::uint32_t failures = 0;
  std::uint32_t losses = 0;
  std::uint32_t preemptions = 0;
  std::uint32_t refusals = 0;  ///< Attempts that their worker was unable to start.
  Time submitted{};
  Time changed{};                   ///< Started, delayed until, or ended; 0 while it waits.
  std::vector<MemberView> members;  ///< Once it has ended: where its last attempt ran.
  std::optional<EndResult> last;
  std::string progress;           ///< The newest line that it reported, JSON; empty: none.
  std::string plan{};             ///< Of an active pipeline, JSON (docs/formats/pipeline-plan.md).
  std::vector<FileView> files{};  ///< Not in a brief one.
};

/// How many of a worker's tasks a view of it names.
inline constexpr std::size_t kMaxTasksPerWorkerView = 16;

struct WorkerView {
  WorkerSpec spec;
  std::string state;  ///< "ready", "draining", "away", "expired", "unable"
  bool draining = false;
  Time heard{};
  std::vector<TaskId> tasks;  ///< The first of those that it has, kMaxTasksPerWorkerView at most.
  std::uint64_t task_count = 0;  ///< All of them.
  std::vector<std::string> free_devices;
  ResourceCounts free_resources{};
  std::vector<std::uint32_t> rooms{};  ///< Of each device what is free, of kWholeDevice.
  std::string problem{};               ///< Why it is unable to start tasks; empty: it is able.
  Time retry{};                        ///< When it is tried again.
};

struct ClusterStatus {
  std::string version;
  std::string policy;
  std::uint32_t term = 0;
  std::uint64_t waiting = 0;
  std::uint64_t pending = 0;
  std::uint64_t delayed = 0;
  std::uint64_t active = 0;
  std::uint64_t ended = 0;
  std::uint32_t workers = 0;
  std::uint32_t workers_connected = 0;
  std::uint32_t devices = 0;
  std::uint32_t devices_leased = 0;
  Time now{};
};

/// What a user may have, and has.
struct UserView {
  std::string user;
  Quota quota;
  std::uint32_t gpus = 0;
  std::uint32_t active = 0;
  std::uint64_t waiting = 0;
};
/// Users in one answer; those beyond, in order of name, are asked for by name.
inline constexpr std::size_t kMaxUsersListed = 10'000;

/// How a task, or all of an array, ended.
struct WaitResult {
  bool ended = false;
  std::uint32_t succeeded = 0;
  std::uint32_t failed = 0;
  std::uint32_t cancelled = 0;
  std::uint32_t dependency_failed = 0;
  std::uint32_t unfinished = 0;
};

// What only looks. `viewer` sees everybody's tasks if `sees_all`, else its own.
struct Viewer {
  std::string user;
  bool sees_all = false;
};
struct ListTasksQuery {
  Viewer viewer;
  TaskId from{};
  std::uint32_t limit = kMaxTasksPerPage;
  std::vector<std::string> states;  ///< Empty: all.
  std::string worker;               ///< Empty: all.
  bool newest_first = false;        ///< Downwards from `from`; 0 is the newest then.
  bool brief = false;               ///< Of each spec only the name and the numbers.
};
struct TaskPage {
  std::vector<TaskView> tasks;
  TaskId next{};  ///< 0: that was all.
  bool newest_first = false;
};
struct TaskQuery {
  Viewer viewer;
  TaskId task;
};
struct WhyQuery {
  Viewer viewer;
  TaskId task;
};
struct WaitQuery {
  Viewer viewer;
  TaskId task;
  std::chrono::milliseconds timeout{};
};
struct WorkersQuery {};
struct QuotasQuery {
  Viewer viewer;
  std::string user{};  ///< Empty: all that the viewer may see.
};
struct StatusQuery {};
/// The pipelines that run now, everybody's, the newest kMaxTasksPerPage; answered by a page. For
/// the server itself: no client can ask it.
struct PipelinesQuery {};

/// All of a task as it was submitted, its files included. For the server itself.
struct SpecQuery {
  Viewer viewer;
  TaskId task;
};

/// Something that happened to a task or a worker.
struct Happening {
  std::uint64_t number = 0;  ///< Counted from the server's start.
  Time at{};
  std::string kind{};  ///< "submitted", "started", "succeeded", "connected" …
  TaskId task{};       ///< 0: it is about a worker.
  std::string user{};  ///< Whose task it is.
  std::string name{};  ///< Of the task or the worker.
};
/// What a page that is looked at shows of tasks: those that run, those that are first in the queue
/// and the newest, each kind at most kMaxPictureTasks and briefly; and what happened after
/// `seen`, the newest kMaxHappenings. For the server itself.
struct PictureQuery {
  Viewer viewer;
  std::uint64_t seen = 0;
};
inline constexpr std::size_t kMaxPictureTasks = 100;
inline constexpr std::size_t kMaxHappenings = 200;
struct PictureView {
  std::vector<TaskView> tasks{};
  std::vector<Happening> happened{};  ///< The oldest first.
  std::uint64_t last = 0;             ///< The number of the newest there is.
};

/// A piece of a task's output.
struct OutputQuery {
  Viewer viewer;
  TaskId task;
  AttemptNumber attempt;  ///< 0: the latest.
  std::uint32_t rank = 0;
  /// "out", "err", "metrics"; "artifacts", a JSON object per line for each file; "artifact", the
  /// file at `path`.
  std::string stream = "out";
  std::uint64_t offset = 0;
  bool follow = false;  ///< Until the attempt has ended.
  std::string path{};
  std::uint64_t limit = 0;  ///< Bytes at most; 0: all.
};
/// A file that an attempt left.
struct ArtifactView {
  std::string path;  ///< Relative, below the task's working directory.
  std::uint64_t bytes = 0;
};
/// Where a task's output lies: ask there, with that token.
struct OutputPlace {
  std::string address;
  std::string token;
  AttemptId attempt;
};
struct OutputPiece {
  std::uint64_t offset = 0;
  std::string data;
};

using ClientRequest =
    std::variant<SubmitRequest, CancelRequest, DrainRequest, ForgetRequest, QuotaRequest,
                 DagRequest, PriorityRequest, ListTasksQuery, TaskQuery, WhyQuery, WaitQuery,
                 WorkersQuery, QuotasQuery, StatusQuery, PipelinesQuery, SpecQuery, PictureQuery,
                 OutputQuery>;
using ClientReply = std::variant<Refusal, Submitted, Done, TaskPage, TaskView, WhyPending,
                                 WaitResult, std::vector<WorkerView>, std::vector<UserView>,
                                 ClusterStatus, TaskSpec, PictureView, OutputPlace>;

}  // namespace harmonics::inline in_rpc
