// SimpleMPIScheduler: each MPI rank of a node has a device of its own. Target
// harmonics::dispatch_mpi.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <harmonics/dispatch/static_hybrid_scheduler.h>

namespace harmonics::inline in_dispatch {

/// The same on every rank. Lists of sizes have one entry per device, or one for all.
struct SimpleMPIConfig {
  /// The devices of a node; CPUs are allowed.
  std::vector<std::string> devices;
  std::vector<std::size_t> batch_sizes;
  /// Empty: the batch sizes.
  std::vector<std::size_t> capacities = {};
  /// True: ranks beyond the number of devices share them round robin. False: they are an error.
  bool shared = false;
  /// The address of an MPI_Comm; null: MPI_COMM_WORLD. Used during construction alone.
  const void* communicator = nullptr;
};

/// A SimpleScheduler on the device that belongs to this rank: ranks are grouped by node
/// (MPI_Comm_split_type), and number k of a node gets device k. Making one is a collective call of
/// all ranks of the communicator, after MPI_Init.
///
/// The ranks agree on errors: a wrong configuration of one of them, and more ranks on a node than
/// devices unless `shared`, is an Error (kInvalidArgument) on all ranks of the communicator that
/// names the rank and what is wrong there. A call before MPI_Init or after MPI_Finalize is
/// kFailedPrecondition.
/// In a build without MPI the constructor answers with an Error (kUnimplemented) that names
/// HARMONICS_WITH_MPI.
class SimpleMPIScheduler final : public SimpleScheduler {
 public:
  explicit SimpleMPIScheduler(const SimpleMPIConfig& config);
  SimpleMPIScheduler(std::vector<std::string> devices, std::vector<std::size_t> batch_sizes,
                     std::vector<std::size_t> capacities = {}, const void* communicator = nullptr)
      : SimpleMPIScheduler(SimpleMPIConfig{.devices = std::move(devices),
                                           .batch_sizes = std::move(batch_sizes),
                                           .capacities = std::move(capacities),
                                           .communicator = communicator}) {}

  /// This rank's number among those of its node, and how many these are.
  [[nodiscard]] int local_rank() const { return local_rank_; }
  [[nodiscard]] int local_ranks() const { return local_ranks_; }

 private:
  struct Choice {
    std::string device;
    std::size_t batch_size = 0;
    std::size_t capacity = 0;
    int local_rank = 0;
    int local_ranks = 1;
  };
  explicit SimpleMPIScheduler(const Choice& choice)
      : SimpleScheduler(choice.device, choice.batch_size, choice.capacity),
        local_rank_(choice.local_rank),
        local_ranks_(choice.local_ranks) {}
  static Choice choose(const SimpleMPIConfig& config);

  int local_rank_;
  int local_ranks_;
};

}  // namespace harmonics::inline in_dispatch
