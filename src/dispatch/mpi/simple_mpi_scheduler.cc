#include <harmonics/dispatch/simple_mpi_scheduler.h>

#include <mpi.h>

#include <algorithm>
#include <optional>
#include <string>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_dispatch {
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

/// What is told of an error to the other ranks at most.
constexpr std::size_t kMaxToldText = 4096;

// What is wrong on this rank, if anything.
using RankError = std::optional<Error>;

template <typename Function>
void note(RankError& wrong, const Function& function) {
  if (wrong) return;
  try {
    function();
  } catch (const Error& error) {
    wrong = error;
  } catch (const std::exception& error) {
    wrong = Error(ErrorCode::kInternal, error.what());
  }
}

// Collective: if anything is wrong on any rank, all of them throw what is wrong on the first such.
void agree(MPI_Comm all, const RankError& wrong) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &size);
  int first = wrong ? rank : size;
  int count = wrong ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, all);
  MPI_Allreduce(MPI_IN_PLACE, &count, 1, MPI_INT, MPI_SUM, all);
  if (first == size) return;
  std::string text = wrong ? wrong->what() : "";
  int head[2] = {wrong ? static_cast<int>(wrong->code()) : 0,
                 static_cast<int>(std::min(text.size(), kMaxToldText))};
  MPI_Bcast(head, 2, MPI_INT, first, all);
  text.resize(static_cast<std::size_t>(head[1]));
  MPI_Bcast(text.data(), head[1], MPI_CHAR, first, all);
  const std::string others =
      count > 1 ? format(" ({} of {} ranks have an error)", count, size) : "";
  fail(static_cast<ErrorCode>(head[0]), "MPI rank {}: {}{}", first, text, others);
}

MPI_Comm communicator_of(const void* given) {
  return given == nullptr ? MPI_COMM_WORLD : *static_cast<const MPI_Comm*>(given);
}

// The ranks that share memory with this one: those of its node.
class NodeCommunicator {
 public:
  explicit NodeCommunicator(MPI_Comm all) {
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
  check_mpi_is_up();
  // Every rank comes as far as `agree`, whatever is wrong with it: nobody waits for one that threw.
  RankError wrong;
  std::optional<StaticHybridScheduler> lists;
  note(wrong, [&] { lists.emplace(config.devices, config.batch_sizes, config.capacities); });
  const MPI_Comm all = communicator_of(config.communicator);
  const NodeCommunicator node(all);
  const std::size_t count = config.devices.size();
  const auto rank = static_cast<std::size_t>(node.rank);
  note(wrong, [&] {
    if (static_cast<std::size_t>(node.size) <= count || config.shared) return;
    fail(ErrorCode::kInvalidArgument,
         "{} MPI ranks on this node, but {} device(s), and each rank has one of its own: start "
         "fewer ranks per node, list more devices, or set shared",
         node.size, count);
  });
  agree(all, wrong);
  if (node.rank == 0 && static_cast<std::size_t>(node.size) < count) {
    log_info("dispatch", "{} MPI ranks for {} devices: some devices stay idle", node.size, count);
  }
  const std::size_t device = rank % count;
  return {.device = config.devices[device],
          .batch_size = lists->fixed_batch(device),
          .capacity = lists->capacity(device),
          .local_rank = node.rank,
          .local_ranks = node.size};
}

}  // namespace harmonics::inline in_dispatch
