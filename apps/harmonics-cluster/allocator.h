// When workers come and go on a batch system: pure decisions, with time as an argument.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <harmonics/base/clock.h>
#include <harmonics/cluster/task.h>
#include <harmonics/cluster/worker.h>

#include "batch_system.h"

namespace harmonics::inline in_cluster_program {

/// Workers that one allocator may ask for.
inline constexpr std::int64_t kMaxAllocated = 10'000;

struct AllocTerms {
  std::string name;  ///< Its workers, and their jobs, are NAME-1 to NAME-<max_workers>.
  std::uint32_t max_workers = 1;
  Nanoseconds idle{};    ///< A worker without a task for so long goes.
  bool closing = false;  ///< Nothing starts any more, and all go once their tasks have ended.
};

/// A task that no worker has room for now.
struct QueuedTask {
  TaskId id;
  Needs needs{};
  std::uint32_t workers = 1;  ///< At once.
};

/// A worker of the cluster, as the server sees it.
struct KnownWorker {
  WorkerSpec spec;
  bool connected = false;
  bool draining = false;
  std::uint64_t tasks = 0;
};

/// What there is at one moment.
struct AllocPicture {
  std::vector<QueuedTask> queue{};
  std::vector<KnownWorker> workers{};
  std::vector<BatchJob> jobs{};
};

// What is to be done, in this order.
struct StartWorker {
  std::string worker;
};
struct CancelJob {
  std::string worker;
  std::string job;
  std::string reason;
};
struct DrainWorker {
  std::string worker;
  bool drain = true;
};
/// Its job is gone and it will not come back with its tasks.
struct ForgetWorker {
  std::string worker;
  std::uint64_t tasks = 0;
};
using AllocStep = std::variant<StartWorker, CancelJob, DrainWorker, ForgetWorker>;

/// Knows its jobs by their names alone, so that one that starts anew goes on where the last one
/// stopped. One thread.
class Allocator {
 public:
  explicit Allocator(AllocTerms terms) : terms_(std::move(terms)) {}

  /// Demand is what the queue asks for, counted in workers like those that came before (one task
  /// each while none has). A worker that finds nothing to do in a queue that is not empty means
  /// that the queue waits for something else: those tasks are left alone for a while.
  [[nodiscard]] std::vector<AllocStep> decide(const AllocPicture& picture, Nanoseconds now);
  /// The job that a StartWorker became: one that is gone before it was ever listed is missed too.
  void note_started(const std::string& worker, const std::string& job, Nanoseconds now);
  /// A job could not be made: nothing starts for a while, longer each time.
  void note_failure(Nanoseconds now);
  /// True once there is nothing left to close.
  [[nodiscard]] bool closed(const AllocPicture& picture) const;
  /// Whether the name is of one of its workers, and which.
  [[nodiscard]] std::optional<std::uint32_t> slot_of(const std::string& worker) const;

 private:
  struct Slot {
    std::string job{};  ///< The last one seen.
    bool connected = false;
    bool leaving = false;
    Nanoseconds since{};  ///< When its job was seen first.
    std::optional<Nanoseconds> idle_since{};
    std::uint32_t gone_looks = 0;  ///< In a row without a job.
  };
  struct Found {
    const BatchJob* job = nullptr;
    const KnownWorker* worker = nullptr;
  };

  [[nodiscard]] std::string name_of(std::uint32_t slot) const;
  void look_at(std::uint32_t number, const Found& found, Nanoseconds now);
  void look_at_job(Slot& slot, const Found& found, Nanoseconds now);
  void look_at_absence(Slot& slot, const KnownWorker* worker, Nanoseconds now);
  void note_idle(Slot& slot, const Found& found, Nanoseconds now);
  void give_up_start(Slot& slot, const BatchJob& job, Nanoseconds now);
  [[nodiscard]] std::uint32_t wanted(const std::vector<QueuedTask>& queue, Nanoseconds now);
  [[nodiscard]] bool counts(const QueuedTask& task) const;
  void start_missing(const AllocPicture& picture, Nanoseconds now);

  AllocTerms terms_;
  std::map<std::uint32_t, Slot> slots_;
  std::optional<WorkerSpec> shape_;                 ///< Of the worker seen last.
  std::map<std::uint64_t, Nanoseconds> fruitless_;  ///< Tasks that do not count until then.
  std::vector<AllocStep> steps_;
  std::vector<TaskId> queued_;              ///< Of the picture that is looked at.
  std::optional<Nanoseconds> empty_since_;  ///< Since when nothing waits.
  Nanoseconds start_after_{};
  std::uint32_t failures_ = 0;
};

}  // namespace harmonics::inline in_cluster_program
