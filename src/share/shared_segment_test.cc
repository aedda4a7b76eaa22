// Deaths, leftovers and ceilings. Every test forks first, while it has a single thread.
#include <harmonics/share/shared_segment.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <error_testing.h>

#include "processes_testing.h"

namespace harmonics::inline in_share {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Board {
  std::atomic<int> ready;
};

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

TEST(ProcessIdentities, TellTheDeadFromTheLiving) {
  const SharedValue<ProcessIdentity> theirs;
  const SharedValue<Board> board;
  EXPECT_TRUE(is_alive(this_process()));
  EXPECT_TRUE(ProcessIdentity{}.nobody());
  const Child child([&] {
    *theirs = this_process();
    board->ready = 1;
    for (;;) ::pause();
  });
  await([&] { return board->ready == 1; });
  EXPECT_NE(*theirs, this_process());
  EXPECT_TRUE(is_alive(*theirs));
  EXPECT_FALSE(is_alive({theirs->pid, theirs->started + 1})) << "another life of that number";
  child.kill();  // its parent does not fetch it
  EXPECT_FALSE(is_alive(*theirs));
}

}  // namespace
}  // namespace harmonics::inline in_share
