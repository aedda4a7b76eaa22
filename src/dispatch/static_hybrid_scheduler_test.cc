// The schedulers with fixed sizes as pure decisions, and the names of devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/log.h>
#include <harmonics/dispatch/static_hybrid_scheduler.h>

#include "run_state.h"
#include "scheduler_testing.h"

namespace harmonics::inline in_dispatch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// --- bookkeeping ---

TEST(StaticHybrid, FillsTheHighestPriorityFirstAndKeepsTheBooks) {
  StaticHybridScheduler scheduler({"cuda:0", "cpu", "cuda:1"}, {23, 17, 10}, {55, 18, 10},
                                  {1, 2, 3});
  RunState state = state_of(scheduler);
  state.begin({0, 1000}, Nanoseconds(0));
  std::vector<std::size_t> assigned;
  state.refill(Nanoseconds(0), assigned);
  EXPECT_THAT(assigned, ElementsAre(2, 1, 0, 0)) << "cuda:1, cpu, then cuda:0 up to its capacity";
  EXPECT_THAT(rows_of(state), ElementsAre(46, 17, 10));

  const Claim first = state.start(0, Nanoseconds(1));
  EXPECT_EQ(first.rows, (RowRange{27, 50}));
  EXPECT_EQ(state.loads()[0].running_rows, 23U);
  EXPECT_EQ(state.loads()[0].queued_rows, 23U);
  assigned.clear();
  state.refill(Nanoseconds(1), assigned);
  EXPECT_TRUE(assigned.empty()) << "starting makes no room";
  state.finish(0, first, Nanoseconds(2));
  EXPECT_THAT(rows_of(state), ElementsAre(23, 17, 10));
  EXPECT_EQ(state.done_rows(), 23U);
  state.refill(Nanoseconds(2), assigned);
  EXPECT_THAT(assigned, ElementsAre(0));
}

TEST(StaticHybrid, GreedyOrderAndTies) {
  StaticHybridScheduler tied({"cuda:0", "cpu"}, {10}, {20});
  RunState state = state_of(tied);
  state.begin({0, 1000}, Nanoseconds(0));
  std::vector<std::size_t> assigned;
  state.refill(Nanoseconds(0), assigned);
  EXPECT_THAT(assigned, ElementsAre(0, 0, 1, 1)) << "equal priorities: the first one first";
}

TEST(StaticHybrid, TheLastSubBatchIsShort) {
  SimpleScheduler scheduler("cpu", 30);
  RunState state = state_of(scheduler);
  state.begin({0, 50}, Nanoseconds(0));
  std::vector<std::size_t> assigned;
  for (const RowRange wanted : {RowRange{0, 30}, RowRange{30, 50}}) {
    state.refill(Nanoseconds(0), assigned);
    const Claim claim = state.start(0, Nanoseconds(0));
    EXPECT_EQ(claim.rows, wanted);
    state.finish(0, claim, Nanoseconds(1));
  }
  EXPECT_TRUE(state.over());
}

TEST(Simple, FillsItsDeviceUpToItsCapacityWhichIsOneSubBatchUnlessSaid) {
  const auto sent_at_once = [](SimpleScheduler scheduler) {
    RunState state = state_of(scheduler);
    state.begin({0, 1000}, Nanoseconds(0));
    std::vector<std::size_t> assigned;
    state.refill(Nanoseconds(0), assigned);
    const std::size_t sent = assigned.size();
    const Claim first = state.start(0, Nanoseconds(0));
    state.refill(Nanoseconds(0), assigned);
    EXPECT_EQ(assigned.size(), sent) << "at capacity it waits";
    state.finish(0, first, Nanoseconds(1));
    state.refill(Nanoseconds(1), assigned);
    EXPECT_EQ(assigned.size(), sent + 1) << "one is done: one more is sent";
    return sent;
  };
  EXPECT_EQ(sent_at_once(SimpleScheduler("cuda:0", 30)), 1U);
  EXPECT_EQ(sent_at_once(SimpleScheduler("cuda:0", 30, 89)), 2U);
  EXPECT_EQ(sent_at_once(SimpleScheduler("cuda:0", 30, 90)), 3U);
}

TEST(StaticHybrid, WrongConfigurationsAreRefused) {
  const auto refuse = [](StaticHybridConfig config) {
    return error_of([&] { StaticHybridScheduler scheduler(std::move(config)); });
  };
  EXPECT_THAT(refuse({{}, {1}}), HasSubstr("at least one device"));
  EXPECT_THAT(refuse({{"cpu"}, {0}}), AllOf(HasSubstr("'cpu'"), HasSubstr("batch size of 0")));
  EXPECT_THAT(refuse({{"cpu"}, {10}, {9}}), AllOf(HasSubstr("capacity of 9"), HasSubstr("10")));
  EXPECT_THAT(refuse({{"cpu", "cuda:0", "cuda:1"}, {1, 2}}),
              HasSubstr("2 batch sizes for 3 device(s)"));
  EXPECT_THAT(refuse({{"cpu", "cuda:0"}, {1}, {1, 2, 3}}), HasSubstr("3 capacities"));
  EXPECT_THAT(refuse({{"cpu", "cuda:0"}, {1}, {}, {1, 2, 3}}), HasSubstr("3 priorities"));
  EXPECT_THAT(refuse({{"cpu"}, {1}, {}, {std::nan("")}}), HasSubstr("not a finite number"));
  EXPECT_THAT(refuse({{"cpu"}, {}}), HasSubstr("0 batch sizes"));
  EXPECT_THAT(refuse({{"cuda:0", "cuda:0"}, {1}}), HasSubstr("listed twice"));
  EXPECT_THAT(refuse({{"cpu", "cpu:0"}, {1}}), HasSubstr("listed twice"));
  EXPECT_THAT(refuse({{"cuda", "cuda:0"}, {1}}), HasSubstr("number all of them"));
  EXPECT_THAT(refuse({{"tpu"}, {1}}), AllOf(HasSubstr("'tpu'"), HasSubstr("there is no such")));
  EXPECT_THAT(refuse({std::vector<std::string>(kMaxWorkDevices + 1, "cpu"), {1}}),
              HasSubstr("at most 256"));
  EXPECT_THAT(error_of([] { SimpleScheduler("cuda:0", 100, 99); }), HasSubstr("never holds"));
}

TEST(StaticHybrid, AListOfOneIsForAllDevices) {
  const StaticHybridScheduler scheduler({"cpu", "cuda:0"}, {10}, {30}, {2});
  EXPECT_EQ(scheduler.fixed_batch(1), 10U);
  EXPECT_EQ(scheduler.capacity(1), 30U);
}

// --- a run's books ---

TEST(RunState, AStopDropsWhatWaitsAndKeepsWhatRuns) {
  SimpleScheduler scheduler("cpu", 10, 40);
  RunState state = state_of(scheduler);
  state.begin({0, 100}, Nanoseconds(0));
  std::vector<std::size_t> assigned;
  state.refill(Nanoseconds(0), assigned);
  const Claim running = state.start(0, Nanoseconds(0));
  state.stop(std::make_exception_ptr(std::domain_error("enough")));
  EXPECT_FALSE(state.over());
  EXPECT_FALSE(state.has_queued(0));
  state.finish(0, running, Nanoseconds(1));
  EXPECT_TRUE(state.over());
  EXPECT_THROW(state.rethrow(), std::domain_error);
}

TEST(RunState, KeepsSoManyFailuresAndCountsTheRest) {
  SimpleScheduler scheduler("cpu", 1, 100);
  RunState state = state_of(scheduler);
  state.begin({0, 100}, Nanoseconds(0));
  for (std::size_t k = 0; k < kMaxKeptFailures + 5; ++k) {
    state.stop(std::make_exception_ptr(Error(ErrorCode::kInternal, format("number {}", k))));
  }
  EXPECT_THAT(error_of([&] { state.rethrow(); }),
              AllOf(HasSubstr("21 sub-batches"), HasSubstr("number 15"), HasSubstr("and 5 more")));
}

struct WrongScheduler : SimpleScheduler {
  using SimpleScheduler::SimpleScheduler;
  std::optional<WorkAssignment> assign(const RunView&) override { return answer; }
  std::optional<WorkAssignment> answer;
};

TEST(RunState, ASchedulerThatIsWrongOrIdleEndsTheRun) {
  WrongScheduler scheduler("cpu", 1);
  for (const std::optional<WorkAssignment> answer :
       {std::optional<WorkAssignment>(), std::optional(WorkAssignment{.device = 7, .rows = 1}),
        std::optional(WorkAssignment{.device = 0, .rows = 0}),
        std::optional(WorkAssignment{.device = 0, .rows = 1, .from = 0})}) {
    scheduler.answer = answer;
    RunState state = state_of(scheduler);
    state.begin({0, 100}, Nanoseconds(0));
    std::vector<std::size_t> assigned;
    state.refill(Nanoseconds(0), assigned);
    EXPECT_TRUE(state.over());
    EXPECT_THAT(error_of([&] { state.rethrow(); }),
                answer ? HasSubstr("a mistake in the scheduler") : HasSubstr("100 of 100 rows"));
  }
}

// --- names ---

TEST(WorkDevices, NamesAreTorchs) {
  EXPECT_EQ(parse_work_device("cpu").kind, WorkDeviceKind::kCpu);
  EXPECT_EQ(parse_work_device("cuda").index, -1);
  EXPECT_EQ(parse_work_device("cuda:3").index, 3);
  EXPECT_EQ(parse_work_device("xpu:1").kind, WorkDeviceKind::kXpu);
  const WorkDevice emulated = parse_work_device("emulated:2e6,1.5ms#left");
  EXPECT_EQ(emulated.rows_per_second, 2e6);
  EXPECT_EQ(emulated.latency, std::chrono::microseconds(1500));
  EXPECT_EQ(emulated_row_time(emulated, 2'000'000), std::chrono::seconds(1));
  EXPECT_EQ(parse_work_device("emulated:1,0.25").latency, std::chrono::milliseconds(250));
  EXPECT_EQ(parse_work_device("emulated:1,7us").latency, std::chrono::microseconds(7));
  for (const char* wrong : {"", "gpu", "cuda:", "cuda:-1", "cuda:1024", "cuda:1x", "cuda:1:2",
                            "emulated:", "emulated:5", "emulated:0,0", "emulated:-1,0",
                            "emulated:inf,0", "emulated:nan,0", "emulated:1,-1", "emulated:1,2h",
                            "emulated:1,4000", "emulated:1e16,0", "emulated:1,"}) {
    EXPECT_THAT(error_of([&] { (void)parse_work_device(wrong); }),
                AllOf(HasSubstr("invalid_argument"), HasSubstr("there are cpu, cuda")))
        << wrong;
  }
  EXPECT_THAT(error_of([] { (void)parse_work_device("emulated:1,0#" + std::string(200, 'x')); }),
              HasSubstr("too long"));
}

TEST(WorkDevices, UntestedOnesAreAcceptedWithOneWarning) {
  const LogCapture log;
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(parse_work_devices(std::vector<std::string>{"mps", "xpu:0", "xpu:1"}).size(), 3U);
  }
  EXPECT_THAT(log.lines(), ElementsAre(AllOf(HasSubstr("mps"), HasSubstr("not tested")),
                                       AllOf(HasSubstr("xpu"), HasSubstr("not tested"))));
}

}  // namespace
}  // namespace harmonics::inline in_dispatch
