#include <harmonics/dispatch/simple_mpi_scheduler.h>

#include <mpi.h>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

namespace harmonics {
namespace {

void check_mpi_is_up() {
  int up = 0;
  int down = 0;
  MPI_Initialized(&up);
  MPI_Finalized(&down);
  if (up == 0 || down != 0) {
    fail(ErrorCode::kFailedPrecondition,
         "a SimpleMPIScheduler needs MPI: make it after MPI_Init and before MPI_Finalize");
  }
}

// The ranks that share memory with this one: those of its node.
class NodeCommunicator {
 public:
  explicit NodeCommunicator(const void* of) {
    const MPI_Comm all = of == nullptr ? MPI_COMM_WORLD : *static_cast<const MPI_Comm*>(of);
    if (MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node_) != MPI_SUCCESS) {
      fail(ErrorCode::kInternal, "MPI could not group the ranks by node");
    }
    MPI_Comm_rank(node_, &rank);
    MPI_Comm_size(node_, &size);
  }
  ~NodeCommunicator() { MPI_Comm_free(&node_); }
  NodeCommunicator(const NodeCommunicator&) = delete;
  NodeCommunicator& operator=(const NodeCommunicator&) = delete;

  int rank = 0;
  int size = 1;

 private:
  MPI_Comm node_ = MPI_COMM_NULL;
};

}  // namespace

SimpleMPIScheduler::SimpleMPIScheduler(const SimpleMPIConfig& config)
    : SimpleMPIScheduler(choose(config)) {}

SimpleMPIScheduler::Choice SimpleMPIScheduler::choose(const SimpleMPIConfig& config) {
  // All that is wrong with the lists is wrong on every rank: nobody waits for another one.
  const StaticHybridScheduler lists(config.devices, config.batch_sizes, config.capacities);
  check_mpi_is_up();
  const NodeCommunicator node(config.communicator);
  const std::size_t count = config.devices.size();
  const auto rank = static_cast<std::size_t>(node.rank);
  if (static_cast<std::size_t>(node.size) > count && !config.shared) {
    fail(ErrorCode::kInvalidArgument,
         "{} MPI ranks on this node, but {} device(s), and each rank has one of its own: start "
         "fewer "
         "ranks per node, list more devices, or set shared",
         node.size, count);
  }
  if (node.rank == 0 && static_cast<std::size_t>(node.size) < count) {
    log_info("dispatch", "{} MPI ranks for {} devices: some devices stay idle", node.size, count);
  }
  const std::size_t device = rank % count;
  return {.device = config.devices[device],
          .batch_size = lists.fixed_batch(device),
          .capacity = lists.capacity(device),
          .local_rank = node.rank,
          .local_ranks = node.size};
}

}  // namespace harmonics
