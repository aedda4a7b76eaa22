// The dispatcher with fixed sub-batches: the results that users of the original rely on, errors,
// cancelling, many devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <numeric>
#include <set>
#include <thread>

#include <harmonics/dispatch/static_hybrid_scheduler.h>
#include <harmonics/dispatch/work_dispatcher.h>

#include "scheduler_testing.h"

namespace harmonics::inline in_dispatch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

double start_times_stop(Slice&& slice, const WorkDevice&) {
  return static_cast<double>(slice.start) * static_cast<double>(slice.stop);
}

double sum(std::vector<double>&& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

class BothModes : public ::testing::TestWithParam<bool> {
 protected:
  DispatchOptions options() const { return {.async = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(WorkDispatcher, BothModes, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Async" : "Sync"; });

TEST_P(BothModes, SixResultsInOrder) {
  SimpleScheduler scheduler("cpu", 345, 800);
  WorkDispatcher<Slice, double> dispatcher(scheduler, {.run = start_times_stop}, options());
  SliceGenerator slices(50, 2000);
  EXPECT_THAT(dispatcher.run(slices),
              ElementsAre(19750, 292300, 802900, 1551550, 2538250, 3550000));
  EXPECT_FALSE(slices.has_more());
}

TEST_P(BothModes, ReducedBySumAndAgain) {
  SimpleScheduler scheduler("cpu", 345, 800);
  WorkDispatcher<Slice, double, double> dispatcher(
      scheduler, {.run = start_times_stop, .reduce = sum}, options());
  SliceGenerator slices(50, 2000);
  for (int round = 0; round < 3; ++round) {
    slices.rewind();
    EXPECT_EQ(dispatcher.run(slices), 8754750);
  }
}

TEST_P(BothModes, PreprocessAndPostprocess) {
  SimpleScheduler scheduler("cpu", 345, 800);
  // Six sub-batches of 1950 rows in all: each gives its product and its number of rows. What comes
  // before and after `run` moves the slices there and back.
  WorkDispatcher<Slice, Slice, double, Slice, double> dispatcher(
      scheduler,
      {.run =
           [](Slice&& slice, const WorkDevice&) {
             return Slice{slice.start - 7, slice.stop - 7};
           },
       .reduce = sum,
       .preprocess =
           [](Slice&& slice, const WorkDevice&) {
             return Slice{slice.start + 7, slice.stop + 7};
           },
       .postprocess =
           [](Slice&& slice) {
             return static_cast<double>(slice.start) * static_cast<double>(slice.stop) +
                    static_cast<double>(slice.size());
           }},
      options());
  SliceGenerator slices(50, 2000);
  EXPECT_EQ(dispatcher.run(slices), 8756700);
}

TEST_P(BothModes, TakesUpWhereTheWalkEnded) {
  SimpleScheduler scheduler("cpu", 100);
  WorkDispatcher<Slice, Slice> dispatcher(
      scheduler, {.run = [](Slice&& slice, const WorkDevice&) { return slice; }}, options());
  SliceGenerator slices(0, 250);
  ASSERT_EQ(slices.next(30)->count, 30U);
  EXPECT_THAT(dispatcher.run(slices),
              ElementsAre(Slice{30, 130}, Slice{130, 230}, Slice{230, 250}));
  EXPECT_THAT(error_of([&] { (void)dispatcher.run(slices); }), HasSubstr("no rows left"));
}

TEST_P(BothModes, AnExceptionKeepsItsTypeAndTheDispatcherGoesOn) {
  struct Mishap : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  SimpleScheduler scheduler("cpu", 10, 40);
  bool broken = true;
  WorkDispatcher<Slice, std::size_t> dispatcher(scheduler,
                                                {.run =
                                                     [&](Slice&& slice, const WorkDevice&) {
                                                       if (broken && slice.start == 50)
                                                         throw Mishap("row 50");
                                                       return slice.size();
                                                     }},
                                                options());
  SliceGenerator slices(0, 1000);
  EXPECT_THROW((void)dispatcher.run(slices), Mishap);
  EXPECT_EQ(slices.offset(), 0U) << "a run that failed leaves the generator where it was";
  broken = false;
  EXPECT_EQ(dispatcher.run(slices).size(), 100U);
}

TEST_P(BothModes, AHybridUsesEveryDevice) {
  StaticHybridScheduler scheduler({"cpu", "emulated:1e9,0#a", "emulated:1e9,0#b"}, {7, 11, 13});
  WorkDispatcher<Slice, std::string> dispatcher(
      scheduler, {.run = [](Slice&&, const WorkDevice& device) { return device.name; }}, options());
  SliceGenerator slices(0, 31);
  EXPECT_THAT(dispatcher.run(slices), ElementsAre("cpu", "emulated:1e9,0#a", "emulated:1e9,0#b"));
}

TEST(WorkDispatcher, SeveralExceptionsBecomeOneThatListsThem) {
  StaticHybridScheduler scheduler({"emulated:1e9,0#a", "emulated:1e9,0#b"}, {10});
  std::latch both(2);
  WorkDispatcher<Slice, int> dispatcher(
      scheduler, {.run = [&](Slice&& slice, const WorkDevice&) -> int {
        both.arrive_and_wait();
        fail(ErrorCode::kDataLoss, "slice {} is spoilt", slice.start);
      }});
  SliceGenerator slices(0, 100);
  try {
    (void)dispatcher.run(slices);
    FAIL();
  } catch (const AggregateError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_EQ(error.errors().size(), 2U);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("2 sub-batches"), HasSubstr("slice 0 is spoilt"),
                                    HasSubstr("slice 10 is spoilt")));
  }
}

TEST_P(BothModes, ALostOrFullDeviceIsNamedWithItsRows) {
  SimpleScheduler scheduler("emulated:1e9,0", 10);
  SliceGenerator slices(100, 195);
  std::function<void()> fault;
  WorkDispatcher<Slice, int> dispatcher(scheduler,
                                        {.run =
                                             [&](Slice&& slice, const WorkDevice&) {
                                               if (slice.start == 120) fault();
                                               return 1;
                                             }},
                                        options());
  fault = [] { fail(ErrorCode::kUnavailable, "gone"); };
  EXPECT_EQ(error_of([&] { (void)dispatcher.run(slices); }),
            "unavailable: device 'emulated:1e9,0', rows 20 to 29: gone");
  fault = [] { throw std::bad_alloc(); };
  try {
    (void)dispatcher.run(slices);
    FAIL();
  } catch (const std::bad_alloc& error) {
    EXPECT_STREQ(error.what(),
                 "device 'emulated:1e9,0', rows 20 to 29: there is not enough memory");
  }
}

TEST(WorkDispatcher, SubmitReturnsWhileTheWorkGoesOn) {
  SimpleScheduler scheduler("cpu", 10);
  std::latch go(1);
  WorkDispatcher<Slice, std::size_t> dispatcher(scheduler,
                                                {.run = [&](Slice&& slice, const WorkDevice&) {
                                                  go.wait();
                                                  return slice.size();
                                                }});
  SliceGenerator slices(0, 95);
  std::future<std::vector<std::size_t>> result = dispatcher.submit(slices);
  EXPECT_THAT(error_of([&] { (void)dispatcher.submit(slices); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("still under way")));
  go.count_down();
  EXPECT_EQ(result.get().back(), 5U);
}

TEST(WorkDispatcher, IsDestroyedWhileARunIsUnderWay) {
  SimpleScheduler scheduler("cpu", 1);
  SliceGenerator slices(0, 100'000'000);
  std::atomic<bool> begun = false;
  {
    WorkDispatcher<Slice, int> dispatcher(scheduler, {.run = [&](Slice&&, const WorkDevice&) {
                                            begun = true;
                                            begun.notify_all();
                                            return 1;
                                          }});
    const auto result = dispatcher.submit(slices);
    begun.wait(false);
  }
}

// Rows that know whether they are still there.
class MortalRows final : public WorkGenerator<Slice> {
 public:
  explicit MortalRows(std::atomic<bool>& read_when_gone) : read_when_gone_(read_when_gone) {}
  ~MortalRows() override { there_ = false; }
  [[nodiscard]] std::size_t size() const override { return 100'000'000; }
  [[nodiscard]] Slice rows(RowRange range) const override {
    if (!there_) read_when_gone_ = true;
    return {range.begin, range.end};
  }

 private:
  std::atomic<bool>& read_when_gone_;
  std::atomic<bool> there_ = true;
};

TEST(WorkDispatcher, AFutureThatIsDroppedEndsItsRun) {
  StaticHybridScheduler scheduler({"cpu", "emulated:1e12,0"}, {1});
  std::atomic<bool> begun = false, read_when_gone = false;
  std::atomic<int> calls = 0;
  WorkDispatcher<Slice, int> dispatcher(scheduler, {.run = [&](Slice&&, const WorkDevice&) {
                                          ++calls;
                                          begun = true;
                                          begun.notify_all();
                                          return 1;
                                        }});
  for (int round = 0; round < 3; ++round) {
    {
      MortalRows rows(read_when_gone);
      const auto result = dispatcher.submit(rows);
      begun.wait(false);
    }
    const int made = calls;
    SliceGenerator few(0, 50);
    EXPECT_EQ(dispatcher.run(few).size(), 50U) << "it is usable again";
    EXPECT_EQ(calls - made, 50) << "and nothing of the dropped run was still at work";
    begun = false;
  }
  EXPECT_FALSE(read_when_gone);
}

TEST_P(BothModes, AnExceptionBeforeGetLeavesAUsableDispatcher) {
  SimpleScheduler scheduler("cpu", 10);
  WorkDispatcher<Slice, int> dispatcher(
      scheduler, {.run = [](Slice&&, const WorkDevice&) { return 1; }}, options());
  SliceGenerator rows(0, 1000);
  const auto interrupted = [&] {
    const auto result = dispatcher.submit(rows);
    throw std::domain_error("between submit and get");
  };
  EXPECT_THROW(interrupted(), std::domain_error);
  rows.rewind();
  EXPECT_EQ(dispatcher.run(rows).size(), 100U);
}

TEST(WorkDispatcher, AFutureMayOutliveItsDispatcher) {
  SimpleScheduler scheduler("cpu", 10);
  SliceGenerator rows(0, 1000);
  std::future<std::vector<int>> asked, dropped;
  {
    WorkDispatcher<Slice, int> first(scheduler,
                                     {.run = [](Slice&&, const WorkDevice&) { return 1; }});
    asked = first.submit(rows);
  }
  {
    WorkDispatcher<Slice, int> second(scheduler,
                                      {.run = [](Slice&&, const WorkDevice&) { return 1; }});
    dropped = second.submit(rows);
  }
  EXPECT_THAT(error_of([&] { (void)asked.get(); }),
              AllOf(HasSubstr("cancelled"), HasSubstr("destroyed before")));
}

TEST(WorkDispatcher, ASharedFutureThatIsDroppedLaterEndsNoOtherRun) {
  SimpleScheduler scheduler("cpu", 10);
  WorkDispatcher<Slice, int> dispatcher(scheduler,
                                        {.run = [](Slice&&, const WorkDevice&) { return 1; }});
  SliceGenerator rows(0, 1000), more(0, 2000);
  std::shared_future<std::vector<int>> done = dispatcher.submit(rows).share();
  EXPECT_EQ(done.get().size(), 100U);
  std::future<std::vector<int>> next = dispatcher.submit(more);
  done = {};
  EXPECT_EQ(next.get().size(), 200U);
}

TEST(WorkDispatcher, InitialisesEveryLaneBeforeItIsMade) {
  StaticHybridScheduler scheduler({"cpu", "emulated:1e9,0"}, {10});
  std::mutex mutex;
  std::set<std::pair<std::string, int>> seen;
  std::set<std::thread::id> threads;
  WorkDispatcher<Slice, int> dispatcher(scheduler,
                                        {.run = [](Slice&&, const WorkDevice&) { return 1; },
                                         .init_thread =
                                             [&](const WorkDevice& device) {
                                               const std::lock_guard lock(mutex);
                                               seen.emplace(device.name, device.lane);
                                               threads.insert(std::this_thread::get_id());
                                             }},
                                        {.lanes = 3});
  EXPECT_THAT(seen, ElementsAre(std::pair("cpu", 0), std::pair("emulated:1e9,0", 0),
                                std::pair("emulated:1e9,0", 1), std::pair("emulated:1e9,0", 2)));
  EXPECT_EQ(threads.size(), 4U);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST(WorkDispatcher, AnInitialisationThatThrowsLeavesTheConstructor) {
  StaticHybridScheduler scheduler({"cpu", "emulated:1e9,0"}, {10});
  using Dispatcher = WorkDispatcher<Slice, int>;
  for (const bool async : {false, true}) {
    EXPECT_THROW(Dispatcher(scheduler,
                            {.run = [](Slice&&, const WorkDevice&) { return 1; },
                             .init_thread =
                                 [](const WorkDevice& device) {
                                   if (device.emulated()) throw std::domain_error("no driver");
                                 }},
                            {.async = async}),
                 std::domain_error);
  }
}

TEST(WorkDispatcher, MissingFunctionsAreNamed) {
  SimpleScheduler scheduler("cpu", 10);
  using Plain = WorkDispatcher<Slice, int>;
  EXPECT_THAT(error_of([&] { Plain(scheduler, {}); }), HasSubstr("'run'"));
  using Reduced = WorkDispatcher<Slice, int, double>;
  EXPECT_THAT(
      error_of([&] { Reduced(scheduler, {.run = [](Slice&&, const WorkDevice&) { return 1; }}); }),
      HasSubstr("'reduce'"));
  using Raw = WorkDispatcher<int, int, std::vector<int>, Slice>;
  EXPECT_THAT(
      error_of([&] { Raw(scheduler, {.run = [](int&&, const WorkDevice&) { return 1; }}); }),
      HasSubstr("'preprocess'"));
  using Parted = WorkDispatcher<Slice, int, std::vector<double>, Slice, double>;
  EXPECT_THAT(
      error_of([&] { Parted(scheduler, {.run = [](Slice&&, const WorkDevice&) { return 1; }}); }),
      HasSubstr("'postprocess'"));
}

TEST(WorkDispatcher, ReportsProgressAndStopsWhenTold) {
  SimpleScheduler scheduler("cpu", 10);
  WorkDispatcher<Slice, int> dispatcher(scheduler,
                                        {.run = [](Slice&&, const WorkDevice&) { return 1; }});
  std::vector<std::size_t> done;
  SliceGenerator slices(0, 100);
  (void)dispatcher.run(slices, {.progress =
                                    [&](const DispatchProgress& progress) {
                                      done.push_back(progress.done_rows);
                                      return progress.total_rows == 100;
                                    },
                                .progress_interval = Nanoseconds(0)});
  EXPECT_THAT(done, ElementsAre(10, 20, 30, 40, 50, 60, 70, 80, 90, 100));
  slices.rewind();
  EXPECT_THAT(error_of([&] {
                (void)dispatcher.run(
                    slices,
                    {.progress = [](const auto& progress) { return progress.done_rows < 50; },
                     .progress_interval = Nanoseconds(0)});
              }),
              AllOf(HasSubstr("cancelled"), HasSubstr("50 of 100 rows")));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(error_of([&] { (void)dispatcher.run(slices, {.stop = stop.get_token()}); }),
              AllOf(HasSubstr("cancelled"), HasSubstr("0 of 100 rows")));
  EXPECT_EQ(dispatcher.run(slices).size(), 10U);
}

TEST(WorkDispatcher, ATimeoutNamesWhatIsStillAtWork) {
  SimpleScheduler scheduler("cpu", 10);
  std::latch begun(1);
  bool slow = true;
  WorkDispatcher<Slice, int> dispatcher(scheduler, {.run = [&](Slice&&, const WorkDevice&) {
                                          if (!slow) return 1;
                                          begun.count_down();
                                          std::promise<void> never;
                                          never.get_future().wait_for(std::chrono::seconds(1));
                                          return 1;
                                        }});
  SliceGenerator slices(0, 100);
  std::future<std::vector<int>> result =
      dispatcher.submit(slices, {.timeout = std::chrono::milliseconds(1)});
  begun.wait();
  EXPECT_THAT(error_of([&] { (void)result.get(); }),
              AllOf(HasSubstr("deadline_exceeded"), HasSubstr("'cpu' (10 rows)")));
  slow = false;
  EXPECT_EQ(dispatcher.run(slices).size(), 10U);
}

TEST(WorkDispatcher, AMemoryCapBoundsWhatADeviceHolds) {
  StaticHybridScheduler scheduler({"emulated:1e12,0"}, {10}, {100});
  std::atomic<std::size_t> held = 0;
  std::atomic<std::size_t> most = 0;
  WorkDispatcher<Slice, int> dispatcher(
      scheduler,
      {.run =
           [&](Slice&& slice, const WorkDevice&) {
             const std::size_t now = held += slice.size();
             for (std::size_t seen = most; seen < now;) {
               if (most.compare_exchange_weak(seen, now)) break;
             }
             held -= slice.size();
             return 1;
           }},
      {.lanes = 8, .memory_caps = {{"emulated:1e12,0", 2000}}, .row_bytes = 100});
  SliceGenerator slices(0, 5000);
  EXPECT_EQ(dispatcher.run(slices).size(), 500U);
  EXPECT_LE(most.load(), 20U);
  using Dispatcher = WorkDispatcher<Slice, int>;
  const Dispatcher::Functions functions{.run = [](Slice&&, const WorkDevice&) { return 1; }};
  EXPECT_THAT(error_of([&] {
                Dispatcher(scheduler, functions, {.memory_caps = {{"cpu", 1}}});
              }),
              HasSubstr("none of the devices"));
  EXPECT_THAT(error_of([&] {
                Dispatcher(scheduler, functions, {.memory_caps = {{"emulated:1e12,0", 1}}});
              }),
              HasSubstr("row_bytes"));
  EXPECT_THAT(error_of([&] {
                Dispatcher(scheduler, functions,
                           {.memory_caps = {{"emulated:1e12,0", 999}}, .row_bytes = 100});
              }),
              HasSubstr("10 rows of 100 bytes do not fit"));
}

TEST(WorkDispatcher, TheCpuLeavesCoresToThoseWhoFeedAccelerators) {
  StaticHybridScheduler scheduler({"cpu", "cuda:0", "cuda:1"}, {10});
  std::mutex mutex;
  std::map<std::string, int> threads;
  WorkDispatcher<Slice, int> dispatcher(scheduler,
                                        {.run = [](Slice&&, const WorkDevice&) { return 1; },
                                         .init_thread =
                                             [&](const WorkDevice& device) {
                                               const std::lock_guard lock(mutex);
                                               threads[device.name] = device.compute_threads;
                                             }},
                                        {.cores = 16});
  EXPECT_EQ(threads.at("cpu"), 11) << "two lanes for each of two GPUs, and one core free";
  EXPECT_EQ(threads.at("cuda:1"), 1);
}

TEST(SliceGenerator, WalksInPieces) {
  SliceGenerator slices(50, 2000);
  EXPECT_EQ(slices.next(1)->value, (Slice{50, 51}));
  EXPECT_EQ(slices.next(2)->value, (Slice{51, 53}));
  EXPECT_EQ(slices.next(1000)->value, (Slice{53, 1053}));
  EXPECT_EQ(slices.next(946)->value, (Slice{1053, 1999}));
  const auto last = slices.next(5);
  EXPECT_EQ(last->count, 1U);
  EXPECT_EQ(last->value, (Slice{1999, 2000}));
  EXPECT_FALSE(slices.next(5).has_value());
  EXPECT_THAT(error_of([] { SliceGenerator(7, 7); }), HasSubstr("start must be below stop"));
}

}  // namespace
}  // namespace harmonics::inline in_dispatch
