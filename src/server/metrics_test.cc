#include "metrics.h"

#include <algorithm>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harmonics::inline in_server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Histogram, CountsUpToEachBound) {
  Histogram times;
  times.add(milliseconds(100));
  times.add(milliseconds(700));
  times.add(seconds(-3));  // a clock that was set back
  times.add(std::chrono::hours(24 * 365));
  EXPECT_EQ(times.count_up_to(0), 2U) << "its own bound included";
  EXPECT_EQ(times.count_up_to(1), 2U);
  EXPECT_EQ(times.count_up_to(2), 3U);
  EXPECT_EQ(times.count_up_to(Histogram::kBounds.size() - 1), 3U);
  EXPECT_EQ(times.count_up_to(Histogram::kBounds.size()), 4U);
  EXPECT_NEAR(times.sum_s(), 365 * 86400 + 0.8, 1e-3);
}

TEST(TaskTimes, FollowATaskThroughItsAttempts) {
  ClusterState state;
  TaskTimes times;
  const auto feed = [&](const Fact& fact, Time now) {
    state.apply(fact);
    times.learn(state, fact, now);
  };
  auto submission = std::make_shared<Submission>();
  submission->first = TaskId{1};
  submission->user = "ann";
  submission->spec.name = "t";
  submission->spec.required_gpus = 0;
  submission->at = seconds(10);
  WorkerRecord worker{WorkerId{1}, {.name = "w", .address = {}, .devices = {}, .identity = "w"}};
  feed(WorkerRegistered{worker}, {});
  feed(TasksSubmitted{submission}, seconds(10));
  const EndResult failed{EndKind::kFailed, 1, 0, ""};
  for (std::uint32_t attempt = 1; attempt <= 2; ++attempt) {
    const AttemptId id{TaskId{1}, {attempt}};
    const Time at = seconds(10 + 20 * attempt);
    feed(AttemptStarted{id, {Member{WorkerId{1}}}, at}, at);
    feed(MemberEnded{id, 0, failed}, at);
    if (attempt == 1) feed(AttemptRequeued{id}, at + seconds(2));
  }
  feed(TaskEnded{TaskId{1}, TaskOutcome::kFailed, failed, seconds(54)}, seconds(99));
  EXPECT_EQ(times.waiting().count_up_to(Histogram::kBounds.size()), 1U) << "the first start only";
  EXPECT_NEAR(times.waiting().sum_s(), 20, 1e-9);
  EXPECT_EQ(times.running().count_up_to(Histogram::kBounds.size()), 2U);
  EXPECT_NEAR(times.running().sum_s(), 2 + 4, 1e-9);
}

TEST(Metrics, LabelsCannotBreakOut) { EXPECT_EQ(label_text("a\"b\\c\nd"), "a\\\"b\\\\c\\\\nd"); }

std::set<std::string> labels(const std::string& text, const std::string& family) {
  std::set<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(family + "{")) found.insert(line.substr(0, line.rfind(' ')));
  }
  return found;
}

TEST(Metrics, HaveSoManyLinesHoweverManyUsersAndWorkersThereAre) {
  MetricsView view;
  view.status.version = "1";
  for (std::size_t i = 0; i < 3 * kMaxMetricLabels; ++i) {
    view.users.push_back({"user" + std::to_string(i), {}, 0, 0, i});
    WorkerView& worker = view.workers.emplace_back();
    worker.spec.name = "w" + std::to_string(i);
    worker.state = "ready";
  }
  const std::string text = metrics_text(view, LoopCounters{}, TaskTimes{});
  EXPECT_EQ(labels(text, "harmonics_user_devices_leased").size(), kMaxMetricLabels + 1);
  EXPECT_EQ(labels(text, "harmonics_worker_connected").size(), kMaxMetricLabels + 1);
  EXPECT_THAT(text, HasSubstr("harmonics_user_tasks{user=\"user299\",state=\"waiting\"} 299\n"));
  EXPECT_THAT(text, Not(HasSubstr("\"user5\""))) << "not among the busiest";
  EXPECT_THAT(text, HasSubstr("harmonics_worker_connected{worker=\"(others)\"} 200\n"));
  EXPECT_THAT(text, HasSubstr("harmonics_user_tasks{user=\"(others)\",state=\"waiting\"} 19900\n"));
}

TEST(Metrics, TellOfTheProcess) {
  const std::string text = metrics_text({}, LoopCounters{}, TaskTimes{});
  for (const char* name :
       {"process_cpu_seconds_total ", "process_resident_memory_bytes ", "process_open_fds ",
        "process_max_fds ", "process_start_time_seconds ", "process_virtual_memory_bytes "}) {
    const std::size_t at = text.find(std::string("\n") + name);
    ASSERT_NE(at, text.npos) << name;
    EXPECT_GT(std::stod(text.substr(at + 1 + std::string_view(name).size())), 0) << name;
  }
}

}  // namespace
}  // namespace harmonics::inline in_server
