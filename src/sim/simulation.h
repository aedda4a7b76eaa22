// A whole cluster in one thread: both reactors as shipped, everything else simulated.
#pragma once

#include <cstdint>
#include <string>

#include "sim_server.h"

namespace harmonics::inline in_sim {

/// What happened in a run that went well.
struct SimulationReport {
  std::uint64_t events = 0;
  std::uint64_t faults = 0;
  std::uint64_t tasks = 0;
  std::uint64_t attempts = 0;
  Time ended{};  ///< Simulated time until all tasks had ended.
};

/// Plays the cluster that `seed` stands for: tasks of every kind from several users, and for a
/// while kills, partitions, half-open connections, reboots, replaced machines, store faults and
/// deposed servers, on drifting clocks; then peace, in which everything must end. A broken promise
/// is an `Error` (kInternal) that names the seed: the same seed and plant bring it back.
SimulationReport simulate(std::uint64_t seed, Plant plant = Plant::kNone);

}  // namespace harmonics::inline in_sim
