// What a replay writes down: who ran when and where, and what of the GPUs was held (private to
// replay).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <harmonics/cluster/message.h>
#include <harmonics/replay/replay.h>

#include "replay_jobs.h"

namespace harmonics::inline in_replay {

class ReplayBooks {
 public:
  ReplayBooks(const std::vector<WorkerSpec>& nodes, const ReplayJobs& jobs);

  void arrived(std::size_t job, Time now);
  void last_arrival() { counts_ = false; }
  /// A member starts: checks that its devices are there to be had. How long it runs; kNever: for
  /// good.
  Nanoseconds started(std::size_t job, const StartMessage& start, WorkerId node, Time now);
  /// The attempt is told to stop: what it has done so far counts.
  void stopped(std::size_t job, AttemptId id, Time now);
  /// A member is over. False: it was already.
  bool ended(std::size_t job, AttemptId id, WorkerId node, bool success, Time now);
  [[nodiscard]] bool running(std::size_t job) const { return records_[job].members > 0; }
  /// Time goes on to `now`.
  void pass(Time now);
  [[nodiscard]] ReplayReport report(Nanoseconds took) const;

 private:
  struct Record {
    Time arrival{};
    Time ended = kNever;
    Time since{};        ///< Of the attempt under way.
    Nanoseconds done{};  ///< Of its duration, by earlier attempts.
    Nanoseconds ran{};   ///< In all attempts, restarts included.
    std::uint32_t attempt = 0;
    std::uint32_t members = 0;  ///< That run.
    bool stopping = false;
  };
  /// A member that runs, to be found by attempt and node.
  struct Place {
    AttemptId id{};
    DeviceSet devices{};
  };

  void hold(WorkerId node, DeviceSet devices, std::uint32_t milli);

  const ReplayJobs& jobs_;
  std::vector<Record> records_;
  std::vector<std::vector<std::uint32_t>> free_;  ///< Thousandths, by node and device.
  std::vector<std::vector<Place>> places_;        ///< By node.
  std::uint64_t gpus_ = 0;
  std::uint64_t held_milli_ = 0;
  std::uint64_t waiting_ = 0;  ///< Jobs that ask for GPUs and do not run.
  std::uint64_t starts_ = 0;
  std::uint64_t preemptions_ = 0;
  Time now_{};
  bool counts_ = true;  ///< Until the last arrival.
  double held_s_ = 0;   ///< GPU seconds until then,
  double idle_s_ = 0;   ///< and those that were free while somebody waited.
  double counted_s_ = 0;
};

}  // namespace harmonics::inline in_replay
