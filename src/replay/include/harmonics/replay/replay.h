// A trace played to the server's own reactor and policy, on a clock that jumps from event to event.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/cluster/policy.h>
#include <harmonics/replay/job_trace.h>

namespace harmonics::inline in_replay {

/// What the scheduler is told of how long jobs run.
struct ReplayLimits {
  bool told = false;    ///< Each job has a time limit,
  double factor = 1.0;  ///< of its duration times a number from 1 to this, drawn by the seed.
};

struct ReplayOptions {
  std::vector<WorkerSpec> nodes{};
  ReplayLimits limits{};
  /// A job that is stopped for another goes on where it was, after so long; or from its start.
  Nanoseconds restart_cost = std::chrono::seconds(60);
  bool from_start = false;
  bool one_user = false;  ///< All jobs are one user's, so that there is no fair share.
  /// Not zero: the trace is a bag of jobs that come in random order, one after the other, until the
  /// GPUs that they ask for are so many times those there are. Each stays; one that finds no place
  /// as it comes is gone. A job may come more than once if the trace holds too few.
  double load = 0;
  std::uint64_t seed = 1;
};

/// Jobs of one size class, or all.
struct ReplayClass {
  std::string name{};
  std::uint64_t jobs = 0;
  struct Spread {
    double mean = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
  };
  Spread completion_h{};  ///< From arrival to end.
  Spread waiting_h{};     ///< Of that, not running.
};

struct ReplayReport {
  std::vector<ReplayClass> classes{};  ///< All of them first; none where jobs stay.
  std::uint64_t jobs = 0;
  std::uint64_t finished = 0;
  std::uint64_t refused = 0;  ///< No machine could ever run them, or found no place as they came.
  std::uint64_t starts = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t gpus = 0;
  double hours = 0;  ///< Of simulated time, to the last end.
  /// Of the GPUs: held, on average until the last arrival; and at the end.
  double utilisation = 0;
  double allocated = 0;
  /// Of the GPUs: free while a job that asks for some waited, on average until the last arrival.
  double fragmentation = 0;
};

/// Plays all of it. A device that is given out twice is a bug of the scheduler and an `Error`
/// (kInternal); so is a job that could run and never does.
[[nodiscard]] ReplayReport replay(const Trace& trace, const ReplayOptions& options,
                                  WorkloadPolicy& policy);

[[nodiscard]] Json to_json(const ReplayReport& report);

}  // namespace harmonics::inline in_replay
