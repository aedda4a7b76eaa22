// Small traces whose outcome can be worked out by hand, and what must hold for all.
#include <algorithm>

#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>
#include <harmonics/replay/replay.h>

namespace harmonics::inline in_replay {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

Trace jobs(std::string_view rows) {
  return parse_trace("arrival_s,duration_s,gpus,user\n" + std::string(rows), "test");
}

ReplayReport play(const Trace& trace, std::string_view policy, std::string_view nodes,
                  ReplayOptions options = {}) {
  options.nodes = equal_nodes(nodes);
  const auto made = make_policy(policy);
  return replay(trace, options, *made);
}

TEST(Replay, OneMachineOneAfterTheOther) {
  const ReplayReport report =
      play(jobs("0,3600,1,a\n0,3600,1,a\n1800,3600,1,a\n"), "simple", "1x1");
  ASSERT_EQ(report.classes.size(), 2U);
  const ReplayClass& all = report.classes[0];
  EXPECT_EQ(all.jobs, 3U);
  EXPECT_DOUBLE_EQ(all.completion_h.mean, (1 + 2 + 2.5) / 3);
  EXPECT_DOUBLE_EQ(all.completion_h.p50, 2);
  EXPECT_DOUBLE_EQ(all.completion_h.p99, 2.5);
  EXPECT_DOUBLE_EQ(all.waiting_h.mean, (0 + 1 + 1.5) / 3);
  EXPECT_EQ(report.classes[1].name, "1 gpu");
  EXPECT_DOUBLE_EQ(report.utilisation, 1);
  EXPECT_DOUBLE_EQ(report.fragmentation, 0);
  EXPECT_EQ(report.starts, 3U);
  EXPECT_EQ(report.preemptions, 0U);
}

TEST(Replay, LargeJobsAreGangsAndWhatCannotRunIsRefused) {
  const ReplayReport report = play(jobs("0,60,12,a\n0,60,8,a\n0,60,17,a\n"), "simple", "2x8");
  EXPECT_EQ(report.finished, 2U);
  EXPECT_EQ(report.refused, 1U) << "two machines have 16 GPUs";
  EXPECT_EQ(report.starts, 2U);
  EXPECT_EQ(report.gpus, 16U);
}

TEST(Replay, FreeGpusThatNobodyCanUseAreFragmentation) {
  // A job of two waits for half an hour while one GPU of two is free.
  const ReplayReport report = play(jobs("0,3600,1,a\n0,60,2,a\n1800,60,1,a\n"), "simple", "1x2");
  EXPECT_NEAR(report.fragmentation, 0.5, 1e-9);
  EXPECT_NEAR(report.utilisation, 0.5, 1e-9);
}

TEST(Replay, LasLetsTheYoungPass) {
  const Trace trace = jobs("0,36000,1,a\n18000,60,1,b\n");
  const ReplayReport fifo = play(trace, "simple", "1x1");
  EXPECT_EQ(fifo.preemptions, 0U);
  EXPECT_DOUBLE_EQ(fifo.classes[0].completion_h.p50, 18060.0 / 3600);
  const ReplayReport las = play(trace, "las", "1x1");
  EXPECT_EQ(las.preemptions, 1U);
  EXPECT_DOUBLE_EQ(las.classes[0].completion_h.p50, 60.0 / 3600);
  EXPECT_DOUBLE_EQ(las.classes[0].completion_h.max, (36000 + 60 + 60) / 3600.0)
      << "goes on where it was, after the restart";
  ReplayOptions anew;
  anew.from_start = true;
  EXPECT_DOUBLE_EQ(play(trace, "las", "1x1", anew).classes[0].completion_h.max,
                   (18000 + 60 + 60 + 36000) / 3600.0);
}

TEST(Replay, SrtfGoesByWhatIsLeft) {
  const Trace trace = jobs("0,7200,1,a\n3600,1800,1,b\n3600,600,1,b\n6900,600,1,c\n");
  ReplayOptions told;
  told.limits.told = true;
  told.restart_cost = Nanoseconds{};
  const ReplayReport report = play(trace, "srtf", "1x1", told);
  // 600 s, then 1800 s, and the first goes on at 6000 s; at 6900 s it has 2700 s left.
  EXPECT_EQ(report.preemptions, 2U);
  EXPECT_DOUBLE_EQ(report.classes[0].completion_h.max, (7200 + 1800 + 600 + 600) / 3600.0);
  EXPECT_DOUBLE_EQ(report.classes[0].completion_h.mean, (10200 + 2400 + 600 + 600) / 4.0 / 3600.0);
}

/// A cluster that is asked for more than it has for days: small and large jobs of three users.
Trace busy_trace(std::uint64_t seed) {
  Random random(seed, "busy");
  Trace trace;
  for (int i = 0; i < 1500; ++i) {
    TraceJob job;
    job.arrival = seconds(random.below(4 * 24 * 3600));
    const std::uint64_t size = random.below(20);
    job.gpus = size < 14 ? 1 : size < 17 ? 2 : size < 19 ? 4 : 16;
    job.duration = seconds(60U << random.below(11));
    job.user = std::string(1, static_cast<char>('a' + random.below(3)));
    trace.jobs.push_back(job);
  }
  std::ranges::stable_sort(trace.jobs, {}, &TraceJob::arrival);
  return trace;
}

TEST(Replay, KnowingMoreIsNeverWorse) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Trace trace = busy_trace(seed);
    for (const std::string& policy : policy_names()) {
      for (const bool one_user : {false, true}) {
        SCOPED_TRACE(policy + (one_user ? ", one user" : "") + ", seed " + std::to_string(seed));
        ReplayOptions options;
        options.one_user = one_user;
        const double without = play(trace, policy, "4x8", options).classes[0].completion_h.mean;
        options.limits.told = true;
        const double with = play(trace, policy, "4x8", options).classes[0].completion_h.mean;
        EXPECT_LE(with, without);
      }
    }
  }
}

TEST(Replay, TheSameSeedIsTheSameReplay) {
  const Trace trace = busy_trace(4);
  ReplayOptions options;
  options.limits = {true, 2.0};
  const std::string once = to_json(play(trace, "las", "4x8", options)).dump();
  EXPECT_EQ(once, to_json(play(trace, "las", "4x8", options)).dump());
  options.seed = 2;
  EXPECT_NE(once, to_json(play(trace, "las", "4x8", options)).dump());
}

TEST(Replay, ABagOfJobsThatStay) {
  ReplayOptions options;
  options.load = 1.5;
  const ReplayReport report = play(jobs("0,1,1,a\n0,1,1,a\n0,1,3,a\n"), "simple", "2x4", options);
  EXPECT_TRUE(report.classes.empty());
  EXPECT_GT(report.refused, 0U) << "more is asked for than there is";
  EXPECT_GT(report.allocated, 0.7);
  EXPECT_EQ(report.starts + report.refused, report.jobs);
  EXPECT_THROW((void)play(jobs("0,1,0,a\n"), "simple", "2x4", options), Error);
}

}  // namespace
}  // namespace harmonics::inline in_replay
