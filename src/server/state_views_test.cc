// Pages of tasks: by count and bytes, from either end, all of them once.
#include "state_views.h"

#include <algorithm>

#include <gtest/gtest.h>

#include <harmonics/cluster/policy.h>

namespace harmonics::inline in_server {
namespace {

const Viewer kAll{"root", true};
constexpr Time kNow = std::chrono::hours(1);

void submit(ClusterState& state, const std::string& user, std::uint32_t array,
            std::size_t env_bytes) {
  auto submission = std::make_shared<Submission>();
  submission->first = state.next_task();
  submission->user = user;
  submission->spec.name = "t";
  submission->spec.array = array;
  submission->spec.priority = 3;
  submission->spec.env = {{"BIG", std::string(env_bytes, 'x')}};
  state.apply(TasksSubmitted{std::move(submission)});
}

const ProgressOf kNoProgress = [](TaskId) { return TaskProgress{}; };

struct Listing {
  std::vector<std::uint64_t> ids;
  std::size_t pages = 0;
  std::size_t most = 0;
};

Listing all_pages(const ClusterState& state, ListTasksQuery query) {
  Listing listing;
  do {
    const TaskPage page = list_tasks(state, query, kNoProgress);
    EXPECT_EQ(page.newest_first, query.newest_first);
    for (const TaskView& task : page.tasks) listing.ids.push_back(task.id.value);
    listing.most = std::max(listing.most, page.tasks.size());
    query.from = page.next;
    ++listing.pages;
  } while (query.from != TaskId{} && listing.pages < 1000);
  return listing;
}

TEST(TaskPages, EndAfterSoManyBytes) {
  ClusterState state;
  submit(state, "ann", 1000, 20'000);
  ListTasksQuery query{.viewer = kAll, .states = {}, .worker = {}};
  const Listing listing = all_pages(state, query);
  EXPECT_EQ(listing.ids.size(), 1000U);
  EXPECT_TRUE(std::ranges::is_sorted(listing.ids));
  EXPECT_LE(listing.most, kMaxTaskPageBytes / 20'000);
  EXPECT_GE(listing.most, kMaxTaskPageBytes / 21'000);
}

TEST(TaskViews, NameTheFilesAndLeaveOutWhatIsInThem) {
  ClusterState state;
  auto submission = std::make_shared<Submission>();
  submission->first = state.next_task();
  submission->spec.name = "t";
  submission->spec.files = std::vector<TaskFile>{{"run.sh", "secret", true}};
  state.apply(TasksSubmitted{submission});
  const TaskRecord& task = *state.find_task(submission->first);
  const TaskView whole = view_task(state, task, kNoProgress);
  EXPECT_TRUE(whole.spec.files.empty());
  EXPECT_EQ(whole.files, (std::vector<FileView>{{"run.sh", 6, true}}));
  const TaskView brief = view_task(state, task, kNoProgress, Detail::kBrief);
  EXPECT_TRUE(brief.spec.files.empty());
  EXPECT_TRUE(brief.files.empty());
}

TEST(WorkerViews, NameAFewTasksAndCountThemAll) {
  BalancedPolicy policy;
  Outbox out;
  ServerReactor reactor(ClusterState{}, policy, {}, kNow, out);
  HelloMessage hello;
  hello.spec.name = hello.spec.identity = "w";
  hello.spec.devices = {{"0", "", 8192}, {"1", "", 8192}};
  reactor.handle(WorkerHello{RequestId{1}, hello}, kNow, out);
  SubmitRequest one{RequestId{2}, {"ann", false}, {}};
  one.spec.name = "t";
  one.spec.required_gpus = 1;
  SubmitRequest many = one;
  many.spec.required_gpus = 0;
  many.spec.cpus = 0;
  many.spec.array = 5 * kMaxTasksPerWorkerView;
  reactor.handle(one, kNow, out);
  reactor.handle(many, kNow, out);
  reactor.tick(kNow, out);
  const std::vector<WorkerView> views = view_workers(reactor);
  ASSERT_EQ(views.size(), 1U);
  EXPECT_EQ(views[0].task_count, 5 * kMaxTasksPerWorkerView + 1);
  ASSERT_EQ(views[0].tasks.size(), kMaxTasksPerWorkerView);
  EXPECT_EQ(views[0].tasks.front(), TaskId{1});
  EXPECT_EQ(views[0].free_devices.size(), 1U);
  EXPECT_EQ(view_status(reactor).devices_leased, 1U);
}

TEST(TaskPages, HoldOneTaskHoweverLongItIs) {
  ClusterState state;
  submit(state, "ann", 3, kMaxTaskPageBytes + 1);
  const Listing listing = all_pages(state, {.viewer = kAll, .states = {}, .worker = {}});
  EXPECT_EQ(listing.ids, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(listing.pages, 3U);
}

TEST(TaskPages, WithoutSpecsHoldAllThatTheyMay) {
  ClusterState state;
  submit(state, "ann", 1000, 20'000);
  const TaskPage page =
      list_tasks(state, {.viewer = kAll, .states = {}, .worker = {}, .brief = true}, kNoProgress);
  ASSERT_EQ(page.tasks.size(), 1000U);
  EXPECT_EQ(page.next, TaskId{});
  EXPECT_EQ(page.tasks[7].spec.name, "t");
  EXPECT_EQ(page.tasks[7].spec.priority, 3);
  EXPECT_TRUE(page.tasks[7].spec.env.empty());
}

TEST(TaskPages, FromTheEndTheNewestComeFirstAndNoneIsLost) {
  ClusterState state;
  submit(state, "ann", 2500, 0);
  submit(state, "bob", 0, 0);
  submit(state, "ann", 700, 0);
  ListTasksQuery query{.viewer = kAll, .limit = 50, .states = {}, .worker = {}};
  query.newest_first = true;
  const TaskPage page = list_tasks(state, query, kNoProgress);
  ASSERT_EQ(page.tasks.size(), 50U);
  EXPECT_EQ(page.tasks.front().id, TaskId{3201});
  EXPECT_EQ(page.next, TaskId{3151});
  query.limit = 999;
  Listing down = all_pages(state, query);
  EXPECT_EQ(down.ids.size(), 3201U);
  std::ranges::reverse(down.ids);
  query.newest_first = false;
  EXPECT_EQ(down.ids, all_pages(state, query).ids);
  query.newest_first = true;
  query.viewer = {"bob", false};
  EXPECT_EQ(all_pages(state, query).ids, (std::vector<std::uint64_t>{2501})) << "bob's own";
}

TEST(TaskPages, LookAtSoManyTasksAndGoOn) {
  ClusterState state;
  submit(state, "ann", 2 * kMaxTasksScanned + 10, 0);
  ListTasksQuery query{.viewer = {"bob", false}, .states = {}, .worker = {}};
  for (const bool newest_first : {false, true}) {
    query.newest_first = newest_first;
    const Listing listing = all_pages(state, query);
    EXPECT_EQ(listing.ids.size(), 0U);
    EXPECT_EQ(listing.pages, 3U);
  }
}

TEST(TaskPages, OfNothingAreEmpty) {
  ListTasksQuery query{.viewer = kAll, .states = {}, .worker = {}};
  query.newest_first = true;
  EXPECT_TRUE(all_pages(ClusterState{}, query).ids.empty());
}

}  // namespace
}  // namespace harmonics::inline in_server
