// What needs no ranks; those of real mpirun are dispatch.mpi_ranks_*.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/dispatch/simple_mpi_scheduler.h>

#include "scheduler_testing.h"

namespace harmonics::inline in_dispatch {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(SimpleMPI, WithoutMpiItIsAnErrorThatSaysWhatToDo) {
  EXPECT_THAT(error_of([] { const SimpleMPIScheduler scheduler({"cpu"}, {10}); }),
              AnyOf(HasSubstr("after MPI_Init"), HasSubstr("HARMONICS_WITH_MPI")));
}

}  // namespace
}  // namespace harmonics::inline in_dispatch
