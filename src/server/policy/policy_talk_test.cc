// The library's copy of the pool follows the server's, by changes alone.
#include "policy_talk.h"

#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/random.h>

namespace harmonics::inline in_server {
namespace {

/// Remembers the pool that it is asked with.
class Onlooker final : public WorkloadPolicy {
 public:
  Assignment assign_task(const WorkerPool& workers, const TaskSpec& task) override {
    pool = &workers;
    return BalancedPolicy().assign_task(workers, task);
  }
  const WorkerPool* pool = nullptr;
};

void expect_equal(const WorkerPool& ours, const WorkerPool& theirs) {
  const std::vector<const Worker*> all = ours.all();
  ASSERT_EQ(theirs.all().size(), all.size());
  for (const Worker* worker : all) {
    const Worker* twin = theirs.find(worker->id);
    ASSERT_NE(twin, nullptr);
    EXPECT_EQ(twin->spec, worker->spec);
    EXPECT_EQ(twin->free, worker->free);
    EXPECT_EQ(twin->free_cpus, worker->free_cpus);
    EXPECT_EQ(twin->free_memory_mb, worker->free_memory_mb);
    EXPECT_EQ(twin->active_tasks, worker->active_tasks);
    EXPECT_EQ(twin->open, worker->open);
  }
}

WorkerSpec drawn_spec(Random& random, std::uint32_t number) {
  WorkerSpec spec;
  spec.name = format("w{}", number);
  spec.cpus = static_cast<std::uint32_t>(random.below(9));
  spec.memory_mb = random.below(1000);
  for (std::uint64_t i = 0, n = random.below(5); i < n; ++i) {
    spec.devices.push_back({std::to_string(i), "m", 100 + random.below(3)});
  }
  return spec;
}

TEST(PolicyTalk, ACopyFollowsByChangesAlone) {
  struct Lease {
    WorkerId worker;
    DeviceSet devices;
    Needs needs;
  };
  Random random(7, "policy talk");
  WorkerPool pool;
  Onlooker onlooker;
  PolicyDesk desk(onlooker);
  std::vector<Lease> leases;
  std::uint32_t workers = 0;
  PolicyTeller teller;
  TaskSpec task;
  task.name = "t";
  task.required_gpus = 0;
  for (int i = 0; i < 2000; ++i) {
    const WorkerId id{1 + static_cast<std::uint32_t>(random.below(workers + 1))};
    const Worker* worker = pool.find(id);
    switch (random.below(8)) {
      case 0: pool.put(WorkerId{++workers}, drawn_spec(random, workers)); break;
      case 1:
        if (worker != nullptr && worker->active_tasks == 0) pool.remove(id);
        break;
      case 2:
      case 3:
        if (worker != nullptr) pool.set_open(id, random.below(4) != 0);
        break;
      case 4:
        if (!leases.empty()) {
          std::swap(leases[random.below(leases.size())], leases.back());
          pool.give_back(leases.back().worker, leases.back().devices, leases.back().needs);
          leases.pop_back();
        }
        break;
      default: {
        const Needs needs{static_cast<std::uint32_t>(random.below(3)), 0, 1, random.below(50)};
        if (worker == nullptr || !worker->fits(needs)) break;
        leases.push_back({id, worker->choose(needs), needs});
        pool.take(id, leases.back().devices, needs);
      }
    }
    if (random.below(3) != 0) continue;
    if (random.below(4) == 0) task.name += "t";
    const std::string answer = desk.answer(teller.question(pool, task));
    const Json json = Json::parse(answer, "answer");
    const std::optional<Assignment> ours = BalancedPolicy().try_assign(pool, task);
    if (onlooker.pool != nullptr) expect_equal(pool, *onlooker.pool);
    ASSERT_EQ(json.find("none") == nullptr, ours.has_value()) << answer;
    if (ours) {
      EXPECT_EQ(json.at("worker").as_integer(), ours->worker.value);
    }
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  EXPECT_LE(pool.changes_since(pool.version() - 1).workers.size(), 1U) << "only what is new";
}

TEST(PolicyTalk, MoreRemovalsThanAreRememberedStartAnew) {
  WorkerPool pool;
  WorkerSpec spec;
  spec.name = "stays";
  pool.put(WorkerId{1}, spec);
  const std::uint64_t told = pool.version();
  for (std::uint32_t i = 2; i < 4000; ++i) {
    spec.name = format("w{}", i);
    pool.put(WorkerId{i}, spec);
    pool.remove(WorkerId{i});
  }
  const WorkerPool::Changes changes = pool.changes_since(told);
  EXPECT_TRUE(changes.whole);
  ASSERT_EQ(changes.workers.size(), 1U);
  EXPECT_EQ(changes.workers[0]->id, WorkerId{1});
  EXPECT_FALSE(pool.changes_since(pool.version()).whole);
}

TEST(PolicyTalk, WhatIsKnownIsNotSaidAgain) {
  WorkerPool pool;
  WorkerSpec spec;
  spec.name = "large";
  for (int i = 0; i < 8; ++i) spec.devices.push_back({std::to_string(i), "some model", 16384});
  pool.put(WorkerId{1}, spec);
  TaskSpec task;
  task.name = "a task with a name";
  PolicyTeller teller;
  EXPECT_NE(teller.question(pool, task).find("some model"), std::string::npos);
  const auto again = [&] { return teller.question(pool, task); };
  pool.take(WorkerId{1}, first_devices(1), {1, 0, 0, 0});
  const std::string change = again();
  EXPECT_EQ(change.find("some model"), std::string::npos) << change;
  EXPECT_EQ(change.find("a task with a name"), std::string::npos) << change;
  EXPECT_NE(change.find("\"free\""), std::string::npos) << change;
  pool.give_back(WorkerId{1}, first_devices(1), {1, 0, 0, 0});
  // Another worker under the same number is another worker.
  pool.remove(WorkerId{1});
  spec.devices[0].model = "other";
  pool.put(WorkerId{1}, spec);
  EXPECT_NE(again().find("other"), std::string::npos);
  teller.begin_anew();
  EXPECT_NE(again().find("a task with a name"), std::string::npos);
}

TEST(PolicyTalk, LevelsTravel) {
  LasPolicy las;
  PolicyDesk desk(las);
  PolicyTeller teller;
  TaskSpec task;
  task.name = "t";
  for (const int ran_h : {0, 2, 40}) {
    const Standing standing{task, std::chrono::hours(1), std::chrono::hours(ran_h)};
    const Json answer = Json::parse(desk.answer(teller.question(standing)), "answer");
    EXPECT_EQ(answer.at("level").as_integer(), las.level(standing));
  }
  EXPECT_EQ(read_rule(Json::parse(policy_greeting(las), "greeting")), OrderRule::kDisplaces);
  EXPECT_THROW((void)read_rule(Json().set("rule", 3)), Error);
}

TEST(PolicyTalk, WhatThePolicyThrowsIsAnAnswer) {
  class Thrower final : public WorkloadPolicy {
    Assignment assign_task(const WorkerPool&, const TaskSpec&) override { throw 7; }
  } thrower;
  PolicyDesk desk(thrower);
  WorkerPool pool;
  TaskSpec task;
  task.name = "t";
  const std::string answer = desk.answer(PolicyTeller().question(pool, task));
  EXPECT_NE(answer.find("no exception"), std::string::npos) << answer;
  EXPECT_NE(desk.answer("{").find("error"), std::string::npos);
}

}  // namespace
}  // namespace harmonics::inline in_server
