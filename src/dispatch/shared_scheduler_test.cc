// Processes that share devices. Every test forks first, while it has a single thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>

#include <harmonics/dispatch/shared_scheduler.h>
#include <harmonics/dispatch/work_dispatcher.h>

#include <harmonics/share/lease_table.h>
#include "processes_testing.h"
#include "scheduler_testing.h"

namespace harmonics::inline in_dispatch {
namespace {

using ::testing::HasSubstr;

TEST(SharedScheduler, SeveralDispatchersNeverHoldMoreThanTheDevice) {
  const std::string name = unique_shared_name("dispatch");
  struct Use {
    std::atomic<int> now, most, done;
  };
  const SharedValue<Use> use;
  const auto work = [&] {
    SharedScheduler scheduler(
        {.name = name, .devices = {"emulated:1e7,10us"}, .batch_sizes = {50}, .capacities = {100}});
    WorkDispatcher<Slice, std::size_t> dispatcher(
        scheduler,
        {.run =
             [&](Slice&& slice, const WorkDevice&) {
               const int now = ++use->now;
               for (int seen = use->most; seen < now;) {
                 if (use->most.compare_exchange_weak(seen, now)) break;
               }
               ::sched_yield();
               --use->now;
               return slice.size();
             }},
        {.lanes = 2});
    SliceGenerator slices(0, 2000);
    if (dispatcher.run(slices).size() != 40) fail(ErrorCode::kDataLoss, "results are missing");
    ++use->done;
  };
  {
    std::vector<Child> children;
    for (int c = 0; c < 3; ++c) children.emplace_back(work);
    for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  }
  EXPECT_EQ(use->done, 3);
  EXPECT_LE(use->most, 2) << "two sub-batches of 50 fill a device of 100";
}

TEST(SharedScheduler, WrongConfigurationsAreRefused) {
  const std::string name = unique_shared_name("wrong");
  EXPECT_THAT(
      error_of([&] {
        SharedScheduler({.name = name, .devices = {"cpu"}, .batch_sizes = {5}, .weight = 0});
      }),
      HasSubstr("weight of 0"));
  std::vector<std::string> many;
  for (std::size_t d = 0; d <= kMaxSharedDevices; ++d) many.push_back(format("cuda:{}", d));
  EXPECT_THAT(
      error_of([&] { SharedScheduler({.name = name, .devices = many, .batch_sizes = {5}}); }),
      HasSubstr("1 to 16 are possible"));
}

}  // namespace
}  // namespace harmonics::inline in_dispatch
