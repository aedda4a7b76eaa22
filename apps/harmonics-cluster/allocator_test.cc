#include "allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>

#include "foreign_program.h"
#include "host_list.h"

namespace harmonics::inline in_cluster_program {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string text_of(const AllocStep& step) {
  if (const auto* start = std::get_if<StartWorker>(&step)) return "start " + start->worker;
  if (const auto* cancel = std::get_if<CancelJob>(&step)) return "cancel " + cancel->job;
  if (const auto* drain = std::get_if<DrainWorker>(&step)) {
    return (drain->drain ? "drain " : "undrain ") + drain->worker;
  }
  return "forget " + std::get<ForgetWorker>(step).worker;
}

/// A world in which what is decided happens, as far as a test says.
struct World {
  explicit World(std::uint32_t most = 8) : allocator({"w", most, seconds(60)}) {}
  Allocator allocator;
  AllocPicture picture;
  Nanoseconds now = minutes(100);

  std::vector<std::string> look(Nanoseconds after = seconds(1)) {
    now += after;
    std::vector<std::string> said;
    for (const AllocStep& step : allocator.decide(picture, now)) {
      said.push_back(text_of(step));
      if (const auto* start = std::get_if<StartWorker>(&step)) {
        picture.jobs.push_back({"j" + start->worker, start->worker, false});
        allocator.note_started(start->worker, "j" + start->worker, now);
      }
    }
    return said;
  }
  void queue(std::uint32_t count, Needs needs = {0, 0, 1, 0}, std::uint32_t gang = 1) {
    for (std::uint32_t i = 0; i < count; ++i)
      picture.queue.push_back({TaskId{next++}, needs, gang});
  }
  void connect(const std::string& name, std::uint32_t cpus = 4, std::uint64_t tasks = 0) {
    picture.workers.push_back(
        {{.name = name, .cpus = cpus, .memory_mb = 1000}, true, false, tasks});
    for (BatchJob& job : picture.jobs) job.running = job.running || job.name == name;
  }
  std::uint64_t next = 1;
};

TEST(Allocator, AsksForAWorkerForEachTaskWhileItKnowsNone) {
  World world;
  EXPECT_THAT(world.look(), IsEmpty());
  world.queue(3);
  EXPECT_THAT(world.look(), ElementsAre("start w-1", "start w-2", "start w-3"));
  EXPECT_THAT(world.look(), IsEmpty());  // they are on their way
  world.queue(100);
  EXPECT_EQ(world.look().size(), 5u);  // never more than it may
  EXPECT_THAT(world.look(), IsEmpty());
}

TEST(Allocator, CountsInWorkersLikeThoseThatCame) {
  World world;
  world.queue(1);
  world.look();
  world.connect("w-1", 4, 4);
  world.picture.queue.clear();
  world.queue(9);
  EXPECT_THAT(world.look(), ElementsAre("start w-2", "start w-3", "start w-4"));
}

TEST(Allocator, LetsAnIdleWorkerGoInTwoSteps) {
  World world;
  world.queue(1);
  world.look();
  world.connect("w-1", 4, 1);
  world.picture.queue.clear();
  EXPECT_THAT(world.look(minutes(10)), IsEmpty());
  world.picture.workers[0].tasks = 0;
  EXPECT_THAT(world.look(), IsEmpty());
  EXPECT_THAT(world.look(seconds(59)), IsEmpty());
  EXPECT_THAT(world.look(), ElementsAre("drain w-1"));
  // A task came in the moment between: it stays.
  world.picture.workers[0].draining = true;
  world.picture.workers[0].tasks = 1;
  EXPECT_THAT(world.look(), ElementsAre("undrain w-1"));
  world.picture.workers[0].draining = false;
  world.picture.workers[0].tasks = 0;
  world.look();
  EXPECT_THAT(world.look(seconds(60)), ElementsAre("drain w-1"));
  world.picture.workers[0].draining = true;
  EXPECT_THAT(world.look(), ElementsAre("cancel jw-1"));
  world.picture.jobs.clear();
  world.picture.workers[0].connected = false;
  world.look();
  EXPECT_THAT(world.look(), ElementsAre("undrain w-1"));
}

TEST(Allocator, FindsItsJobsByName) {
  World world;
  world.picture.jobs = {
      {"17", "w-2", true}, {"18", "w-x", true}, {"19", "other-1", true}, {"20", "w-02", true}};
  world.connect("w-2", 4, 4);
  world.queue(4);
  EXPECT_THAT(world.look(), ElementsAre("start w-1"));
}

TEST(Allocator, ForgetsAWorkerWhoseJobIsGone) {
  World world;
  world.queue(1);
  world.look();
  world.connect("w-1", 4, 2);
  world.picture.queue.clear();
  world.look();
  world.picture.jobs.clear();
  EXPECT_THAT(world.look(), IsEmpty());  // still connected: a list may be old
  world.picture.workers[0].connected = false;
  EXPECT_THAT(world.look(), IsEmpty());
  EXPECT_THAT(world.look(), ElementsAre("forget w-1"));
}

TEST(Allocator, WhatAFreeWorkerDoesNotHelpStartsNoOther) {
  World world;
  world.queue(1);
  world.look();
  world.connect("w-1");
  world.picture.queue.clear();
  world.queue(50);  // of a user whose quota is used up
  EXPECT_THAT(world.look(seconds(1)), ::testing::Not(IsEmpty()));  // at first nobody can know
  const std::size_t jobs = world.picture.jobs.size();
  EXPECT_THAT(world.look(seconds(6)), IsEmpty());
  EXPECT_EQ(world.picture.jobs.size(), jobs);
}

TEST(Allocator, WhatNoWorkerCouldHoldStartsNone) {
  World world;
  world.queue(1);
  world.look();
  world.connect("w-1", 4, 1);
  world.picture.queue.clear();
  world.queue(5, {1, 4096, 0, 0});
  world.queue(5, {0, 0, 64, 0});
  EXPECT_THAT(world.look(), IsEmpty());
}

TEST(Allocator, AGangGetsAllItsWorkers) {
  World world;
  world.queue(1);
  world.look();
  world.connect("w-1");
  world.picture.queue.clear();
  world.look();
  world.queue(1, {0, 0, 1, 0}, 4);
  EXPECT_THAT(world.look(seconds(20)), ElementsAre("start w-2", "start w-3", "start w-4"));
}

TEST(Allocator, FailuresMakeItWaitLongerAndLonger) {
  World world(1);
  world.queue(1);
  EXPECT_THAT(world.look(), ElementsAre("start w-1"));
  world.picture.jobs.clear();  // it died at once
  EXPECT_THAT(world.look(), IsEmpty());
  EXPECT_THAT(world.look(seconds(6)), ElementsAre("start w-1"));
  world.picture.jobs.clear();
  EXPECT_THAT(world.look(), IsEmpty());
  EXPECT_THAT(world.look(seconds(6)), IsEmpty());
  EXPECT_THAT(world.look(seconds(6)), ElementsAre("start w-1"));
}

TEST(Allocator, AJobThatNobodyWaitsForAnyMoreLeavesTheQueue) {
  World world;
  world.queue(1);
  world.look();
  world.picture.queue.clear();
  EXPECT_THAT(world.look(), IsEmpty());
  EXPECT_THAT(world.look(seconds(61)), ElementsAre("cancel jw-1"));
}

TEST(Batch, ReadsWhatSqueueAndQstatPrint) {
  const auto slurm = parse_squeue("17|RUNNING|w-1\n18|PENDING|a|b\n");
  ASSERT_EQ(slurm.size(), 2u);
  EXPECT_TRUE(slurm[0].running);
  EXPECT_EQ(slurm[1].name, "a|b");
  EXPECT_THROW(static_cast<void>(parse_squeue("slurm_load_jobs error")), Error);
  const auto pbs = parse_qstat(
      "Job Id: 1.head\n    Job_Name = w-1\n    Job_Owner = ann@head\n    job_state = R\n    "
      "Variable_List = A,\n\tB = c\n\n"
      "Job Id: 2.head\n    Job_Name = w-2\n    Job_Owner = bob@head\n    job_state = Q\n\n"
      "Job Id: 3.head\n    Job_Name = w-3\n    Job_Owner = ann@head\n    job_state = F\n\n"
      "Job Id: 4.head\n    Job_Name = w-4\n    Job_Owner = ann@head\n    job_state = Q\n",
      "ann");
  ASSERT_EQ(pbs.size(), 2u);
  EXPECT_EQ(pbs[0].id, "1.head");
  EXPECT_TRUE(pbs[0].running);
  EXPECT_EQ(pbs[1].name, "w-4");
  EXPECT_FALSE(pbs[1].running);
}

TEST(Shell, QuotesAndSplits) {
  for (const std::string word : {"plain", "two words", "it's", "", "$HOME;`x`", "\"q\"", "a\\b"}) {
    EXPECT_THAT(shell_words(shell_quoted(word)), ElementsAre(word));
  }
  EXPECT_THAT(shell_words("a 'b c'd \"e f\" \\ g"), ElementsAre("a", "b cd", "e f", " g"));
  EXPECT_THROW(static_cast<void>(shell_words("'open")), Error);
  const ForeignAnswer slow = ask_foreign("/bin/sleep", {"60"}, {}, std::chrono::milliseconds(50));
  EXPECT_TRUE(slow.timed_out);
  EXPECT_EQ(ask_foreign("/bin/cat", {}, "through", seconds(30)).out, "through");
}

TEST(Hosts, ReadsUsersPortsAddressesAndFlags) {
  const auto hosts =
      parse_hosts("ann@a.example:2222 --cpus 4 # big\n\n[::1]:22 --id=six\n", "hosts.txt");
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(hosts[0].user, "ann");
  EXPECT_EQ(hosts[0].port, 2222);
  EXPECT_EQ(hosts[0].worker, "a.example");
  EXPECT_THAT(hosts[0].flags, ElementsAre("--cpus", "4"));
  EXPECT_EQ(hosts[1].host, "::1");
  EXPECT_EQ(hosts[1].worker, "six");
  EXPECT_THAT(hosts[1].flags, IsEmpty());
  try {
    static_cast<void>(parse_hosts("good\n$(bad)\n", "hosts.txt"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("hosts.txt:2: '$(bad)' is no host"));
  }
}

}  // namespace
}  // namespace harmonics::inline in_cluster_program
