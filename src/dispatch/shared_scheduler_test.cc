// Processes that share devices: turns, fairness, weights, deaths. Every test forks first, while it
// has a single thread.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <numeric>
#include <thread>

#include <harmonics/base/log.h>
#include <harmonics/dispatch/shared_scheduler.h>
#include <harmonics/dispatch/work_dispatcher.h>

#include "lease_table.h"
#include "processes_testing.h"
#include "scheduler_testing.h"

namespace harmonics::inline in_dispatch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Nanoseconds kPatience = std::chrono::minutes(2);
const std::vector<SharedDevice> kOne = {{"emulated:1e6,0", 100}};

struct Board {
  std::array<std::atomic<std::uint64_t>, 4> rows;
  std::atomic<int> ready;
  std::atomic<bool> stop;
};

// What equal users should each get: 1 is perfectly fair.
double jain_index(std::span<const double> shares) {
  double sum = 0, squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return sum * sum / (static_cast<double>(shares.size()) * squares);
}

// Children that use a device without pause, each holding it for a while; the rows that each got
// until all together had `total`.
std::vector<double> rows_of_children(const std::vector<double>& weights,
                                     const std::vector<std::size_t>& sizes, std::uint64_t total) {
  const std::string name = unique_shared_name("fair");
  const SharedValue<Board> board;
  std::vector<Child> children;
  for (std::size_t c = 0; c < weights.size(); ++c) {
    children.emplace_back([&, c] {
      LeaseTable leases(name, kOne, weights[c]);
      RealTimeline time;
      ++board->ready;
      while (!board->stop) {
        leases.acquire(0, sizes[c], kPatience);
        time.pause_until(time.now() + std::chrono::microseconds(5 * sizes[c]), 0);
        if (board->ready == static_cast<int>(weights.size())) board->rows[c] += sizes[c];
        leases.release(0, sizes[c]);
      }
    });
  }
  await([&] {
    return std::accumulate(board->rows.begin(), board->rows.end(), std::uint64_t{0}) >= total;
  });
  std::vector<double> rows;
  for (std::size_t c = 0; c < weights.size(); ++c) {
    rows.push_back(static_cast<double>(board->rows[c]));
  }
  board->stop = true;
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  return rows;
}

TEST(SharedLeases, AreFairByRows) {
  EXPECT_GE(jain_index(rows_of_children({1, 1, 1}, {100, 100, 100}, 30'000)), 0.95);
  EXPECT_GE(jain_index(rows_of_children({1, 1}, {100, 25}, 20'000)), 0.95)
      << "one with small sub-batches gets as many rows";
}

TEST(SharedLeases, FollowWeights) {
  const std::vector<double> rows = rows_of_children({3, 1}, {100, 100}, 30'000);
  const std::array<double, 2> shares = {rows[0] / 3, rows[1]};
  EXPECT_GE(jain_index(shares), 0.95) << rows[0] << " and " << rows[1];
}

TEST(SharedLeases, AKilledProcesssLeaseComesBack) {
  const std::string name = unique_shared_name("killed");
  const SharedValue<Board> board;
  const Child child([&] {
    LeaseTable leases(name, kOne, 1);
    leases.acquire(0, 100, kPatience);
    board->ready = 1;
    for (;;) ::pause();
  });
  const LogCapture log;
  LeaseTable leases(name, kOne, 1);
  await([&] { return board->ready == 1; });
  EXPECT_EQ(leases.held_rows(0), 100U);
  EXPECT_THAT(error_of([&] { leases.acquire(0, 1, std::chrono::milliseconds(120)); }),
              AllOf(HasSubstr("deadline_exceeded"), HasSubstr("(100 rows)")));
  child.kill();  // its parent does not fetch it: it is a zombie now
  leases.acquire(0, 100, kPatience);
  EXPECT_EQ(leases.held_rows(0), 100U);
  EXPECT_THAT(log.lines(), ::testing::Contains(HasSubstr("died with 100 rows")));
  leases.release(0, 100);
  EXPECT_EQ(leases.held_rows(0), 0U);
}

TEST(SharedLeases, AProcessThatDiesInLineIsPassedOver) {
  const std::string name = unique_shared_name("line");
  const SharedValue<Board> board;
  const Child child([&] {
    LeaseTable leases(name, kOne, 1);
    await([&] { return board->ready == 1; });
    board->ready = 2;
    leases.acquire(0, 100, kPatience);
  });
  LeaseTable leases(name, kOne, 1);
  leases.acquire(0, 60, kPatience);
  board->ready = 1;
  await([&] { return board->ready == 2; });
  child.kill();
  leases.acquire(0, 40, kPatience);
  EXPECT_EQ(leases.held_rows(0), 100U);
}

TEST(SharedSegments, ALockWhoseHolderDiesIsRepaired) {
  const std::string name = unique_shared_name("lock");
  const SharedValue<Board> board;
  const auto plan = [&](std::function<void()> repair) {
    return SegmentPlan{.name = name,
                       .bytes = SharedSegment::kHeadBytes + 64,
                       .fingerprint = 1,
                       .make = nullptr,
                       .repair = std::move(repair)};
  };
  const Child child([&] {
    SharedSegment segment(plan(nullptr));
    const SharedSegment::Lock lock(segment);
    board->ready = 1;
    for (;;) ::pause();
  });
  await([&] { return board->ready == 1; });
  int repairs = 0;
  SharedSegment segment(plan([&] { ++repairs; }));
  child.kill();
  { const SharedSegment::Lock lock(segment); }
  { const SharedSegment::Lock lock(segment); }
  EXPECT_EQ(repairs, 1);
}

TEST(SharedSegments, AreRemovedByTheLastAndMadeAnewAfterTheDead) {
  const std::string name = unique_shared_name("left");
  const SharedValue<Board> board;
  const auto plan = [&](std::uint64_t fingerprint, std::size_t bytes) {
    return SegmentPlan{.name = name,
                       .bytes = SharedSegment::kHeadBytes + bytes,
                       .fingerprint = fingerprint,
                       .make = nullptr,
                       .repair = nullptr};
  };
  {
    const Child child([&] {
      const SharedSegment segment(plan(1, 64));
      board->ready = 1;
      for (;;) ::pause();
    });
    await([&] { return board->ready == 1; });
    EXPECT_THAT(error_of([&] { const SharedSegment other(plan(2, 64)); }),
                AllOf(HasSubstr("failed_precondition"), HasSubstr("other settings")));
    EXPECT_THAT(error_of([&] { const SharedSegment other(plan(1, 4096)); }),
                HasSubstr("other settings"));
  }
  { const SharedSegment another(plan(2, 4096)); }
  EXPECT_LT(::shm_open(format("/harmonics-{}-{}", ::geteuid(), name).c_str(), O_RDWR, 0), 0);
  EXPECT_THAT(error_of([] { const SharedSegment bad({.name = "a/b", .bytes = 4096}); }),
              HasSubstr("cannot name shared memory"));
}

TEST(SharedSegments, HaveAMostNumberOfUsers) {
  const std::string name = unique_shared_name("many");
  const SegmentPlan plan{.name = name, .bytes = SharedSegment::kHeadBytes + 64};
  std::vector<std::unique_ptr<SharedSegment>> users;
  for (std::size_t k = 0; k < kMaxAttached; ++k) {
    users.push_back(std::make_unique<SharedSegment>(plan));
  }
  EXPECT_THAT(error_of([&] { const SharedSegment one_more(plan); }),
              AllOf(HasSubstr("resource_exhausted"), HasSubstr("64 users")));
  users.pop_back();
  users.push_back(std::make_unique<SharedSegment>(plan));
}

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
