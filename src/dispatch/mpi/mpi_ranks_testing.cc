// Started by mpirun on several ranks of one machine: devices are shared out, work is done, errors
// reach every rank. Exits with 1 when anything is not as it should be.
#include <mpi.h>

#include <cstdio>
#include <numeric>
#include <set>
#include <string>

#include <harmonics/base/format.h>
#include <harmonics/dispatch/simple_mpi_scheduler.h>
#include <harmonics/dispatch/work_dispatcher.h>

namespace harmonics::inline in_dispatch {
namespace {

int rank_of_this() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

void expect(bool good, const std::string& what) {
  if (good) return;
  std::fprintf(stderr, "rank %d: %s\n", rank_of_this(), what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

std::vector<std::string> emulated(int count) {
  std::vector<std::string> names;
  for (int d = 0; d < count; ++d) names.push_back(format("emulated:1e9,0#{}", d));
  return names;
}

double total(WorkScheduler& scheduler) {
  WorkDispatcher<Slice, double, double> dispatcher(
      scheduler, {.run =
                      [](Slice&& slice, const WorkDevice&) {
                        return static_cast<double>(slice.start) * static_cast<double>(slice.stop);
                      },
                  .reduce =
                      [](std::vector<double>&& parts) {
                        return std::accumulate(parts.begin(), parts.end(), 0.0);
                      }});
  SliceGenerator slices(50, 2000);
  return dispatcher.run(slices);
}

// Every rank its own device, and the work of the original's test on each.
void exclusive(int ranks) {
  SimpleMPIScheduler scheduler(emulated(ranks + 1), {345}, {800});
  expect(scheduler.local_ranks() == ranks, "the ranks of one machine are not one node");
  const int device = scheduler.devices()[0].name.back() - '0';
  std::vector<int> devices(static_cast<std::size_t>(ranks));
  MPI_Allgather(&device, 1, MPI_INT, devices.data(), 1, MPI_INT, MPI_COMM_WORLD);
  expect(std::set<int>(devices.begin(), devices.end()).size() == devices.size(),
         "two ranks have the same device");
  expect(device == scheduler.local_rank(), "rank k does not have device k");
  expect(total(scheduler) == 8754750, "the result is wrong");
}

// More ranks than devices: an error on every rank, or round robin when shared.
void crowded(int ranks) {
  if (ranks < 2) return;
  std::string message;
  try {
    const SimpleMPIScheduler scheduler(emulated(ranks - 1), {345});
  } catch (const Error& error) {
    message = error.what();
  }
  expect(message.find(format("{} MPI ranks on this node, but {} device(s)", ranks, ranks - 1)) !=
             std::string::npos,
         "no error that says so, but: " + message);
  SimpleMPIScheduler scheduler(
      SimpleMPIConfig{.devices = emulated(ranks - 1), .batch_sizes = {345}, .shared = true});
  expect(scheduler.devices()[0].name.back() - '0' == scheduler.local_rank() % (ranks - 1),
         "not round robin");
  expect(total(scheduler) == 8754750, "the result is wrong when shared");
}

// One rank alone is configured wrongly: every rank hears of it, and the next collective call works.
void one_is_wrong(int ranks) {
  const int wrong = ranks - 1;
  const bool this_one = rank_of_this() == wrong;
  std::string message;
  ErrorCode code = ErrorCode::kUnknown;
  try {
    const SimpleMPIScheduler scheduler(
        emulated(ranks + 1),
        this_one ? std::vector<std::size_t>{1, 2, 3, 4, 5, 6, 7} : std::vector<std::size_t>{345});
  } catch (const Error& error) {
    message = error.what();
    code = error.code();
  }
  expect(code == ErrorCode::kInvalidArgument &&
             message.find(format("MPI rank {}: ", wrong)) != std::string::npos &&
             message.find("7 batch sizes") != std::string::npos,
         "no error that names the rank and what is wrong, but: " + message);
  SimpleMPIScheduler scheduler(emulated(ranks), {345});
  expect(total(scheduler) == 8754750, "the result after an error is wrong");
}

// A communicator of the caller: the even and the odd ranks on their own, CPUs as devices.
void own_communicator() {
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank_of_this() % 2, 0, &half);
  int size = 0;
  MPI_Comm_size(half, &size);
  SimpleMPIScheduler scheduler(SimpleMPIConfig{
      .devices = {"cpu"}, .batch_sizes = {345}, .shared = true, .communicator = &half});
  expect(scheduler.local_ranks() == size, "the caller's communicator is not used");
  expect(total(scheduler) == 8754750, "the result is wrong on the CPU");
  MPI_Comm_free(&half);
}

}  // namespace
}  // namespace harmonics::inline in_dispatch

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  harmonics::exclusive(ranks);
  harmonics::crowded(ranks);
  harmonics::one_is_wrong(ranks);
  harmonics::own_communicator();
  MPI_Barrier(MPI_COMM_WORLD);
  if (harmonics::rank_of_this() == 0) std::printf("%d rank(s): all in order\n", ranks);
  MPI_Finalize();
  return 0;
}
