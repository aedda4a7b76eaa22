// Policies against naive twins that look at every worker.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/random.h>
#include <harmonics/cluster/policy.h>

#include "check_testing.h"
#include "pool/fgd_expectation.h"

namespace harmonics::inline in_cluster {
namespace {

std::uint32_t room_for(const Worker& worker, const TaskSpec& task);

/// All orderings of the workers that fit, written down as the issue says them.
std::optional<Assignment> naive(const WorkerPool& pool, const TaskSpec& task,
                                const std::function<bool(const Worker&, const Worker&)>& better) {
  const Worker* best = nullptr;
  for (const Worker* worker : pool.all()) {
    if (!worker->open || !worker->fits(needs_of(task))) continue;
    if (best == nullptr || better(*worker, *best)) best = worker;
  }
  if (best == nullptr) return std::nullopt;
  return Assignment{best->id, best->choose(needs_of(task))};
}

std::optional<Assignment> naive_simple(const WorkerPool& pool, const TaskSpec& task) {
  const auto surplus = [&](const Worker& worker) {
    std::uint64_t sum = 0;
    worker.choose(needs_of(task)).each([&](DeviceId id) {
      sum += worker.spec.devices[id.value].memory_mb - task.min_gpu_memory_mb;
    });
    return sum;
  };
  return naive(pool, task, [&](const Worker& a, const Worker& b) {
    const bool share = task.gpu_share != kWholeDevice;
    if (share && room_for(a, task) != room_for(b, task)) {
      return room_for(a, task) < room_for(b, task);
    }
    if (a.free.size() != b.free.size()) return a.free.size() < b.free.size();
    if (!share && surplus(a) != surplus(b)) return surplus(a) < surplus(b);
    return natural_less(a.spec.name, b.spec.name);
  });
}

std::optional<Assignment> naive_balanced(const WorkerPool& pool, const TaskSpec& task) {
  const auto load = [](const Worker& worker) {
    return static_cast<double>(worker.active_tasks) /
           static_cast<double>(std::max<std::size_t>(1, worker.spec.devices.size()));
  };
  return naive(pool, task, [&](const Worker& a, const Worker& b) {
    if (load(a) != load(b)) return load(a) < load(b);
    if (a.free.size() != b.free.size()) return a.free.size() > b.free.size();
    return natural_less(a.spec.name, b.spec.name);
  });
}

WorkerSpec random_worker(Random& random, std::uint32_t number) {
  WorkerSpec spec{.name = "worker-" + std::to_string(number)};
  const bool mixed = random.below(3) == 0;
  const std::uint64_t memory_mb = 8192 << random.below(3);
  for (std::uint64_t n = random.below(9); n > 0; --n) {
    spec.devices.push_back({std::to_string(n), "", mixed ? 4096 << random.below(4) : memory_mb});
  }
  spec.cpus = static_cast<std::uint32_t>(random.below(17));
  spec.memory_mb = random.below(1 << 14);
  return spec;
}

TaskSpec random_task(Random& random) {
  TaskSpec task{.name = "t"};
  task.required_gpus = static_cast<std::uint32_t>(random.below(5));
  task.min_gpu_memory_mb = random.below(20'000);
  if (random.below(2) == 0) task.cpus = static_cast<std::uint32_t>(random.below(8));
  if (random.below(2) == 0) task.memory_mb = random.below(6000);
  if (task.required_gpus == 1 && random.below(2) == 0) {
    task.gpu_share = static_cast<std::uint32_t>(1 + random.below(kWholeDevice));
  }
  return task;
}

/// What is left of the device that a share would get.
std::uint32_t room_for(const Worker& worker, const TaskSpec& task) {
  std::uint32_t room = 0;
  worker.choose(needs_of(task)).each([&](DeviceId id) { room = worker.room(id); });
  return room;
}

struct Running {
  Assignment assignment;
  Needs needs;
};

/// Starts, ends, opens, closes and changes at random; every choice equals the twin's.
using Twin = std::function<std::optional<Assignment>(const WorkerPool&, const TaskSpec&)>;
void compare_with_twin(WorkloadPolicy& policy, const Twin& twin, std::uint64_t seed) {
  Random random(seed, "policy");
  WorkerPool pool;
  const auto workers = static_cast<std::uint32_t>(1 + random.below(40));
  for (std::uint32_t i = 1; i <= workers; ++i) {
    pool.put(WorkerId{i}, random_worker(random, i));
    pool.set_open(WorkerId{i}, true);
  }
  std::vector<Running> running;
  for (int step = 0; step < 400; ++step) {
    const WorkerId some{static_cast<std::uint32_t>(1 + random.below(workers))};
    switch (random.below(8)) {
      case 0: pool.set_open(some, random.below(4) != 0); break;
      case 1:
        if (pool.at(some).active_tasks == 0) pool.put(some, random_worker(random, some.value));
        break;
      case 2:
      case 3:
        if (!running.empty()) {
          std::swap(running[random.below(running.size())], running.back());
          const Running ended = running.back();
          running.pop_back();
          pool.give_back(ended.assignment.worker, ended.assignment.devices, ended.needs);
        }
        break;
      default: {
        const TaskSpec task = random_task(random);
        const std::optional<Assignment> chosen = policy.try_assign(pool, task);
        ASSERT_EQ(chosen, twin(pool, task)) << "seed " << seed << ", step " << step;
        if (!chosen) break;
        pool.take(chosen->worker, chosen->devices, needs_of(task));
        running.push_back({*chosen, needs_of(task)});
      }
    }
  }
}

/// Fragmentation gradient descent over every worker, anew each time.
class NaiveFgd {
 public:
  std::optional<Assignment> operator()(const WorkerPool& pool, const TaskSpec& task) {
    const Needs needs = needs_of(task);
    const std::size_t kind = expected_.kind(fgd_kind(needs));
    if (waiting_.erase(&task) == 0) expected_.count(kind, needs.cpus);
    static_cast<void>(expected_.look());
    std::optional<Assignment> best;
    std::tuple<float, std::uint32_t, std::uint32_t> least{};
    for (const Worker* worker : pool.all()) {
      if (!worker->open || !worker->fits(needs)) continue;
      const FgdRooms rooms = fgd_rooms(*worker);
      std::uint32_t units = 0;
      for (std::size_t i = 0; i < rooms.devices; ++i) units += rooms.of[i];
      const auto [added, devices] = step(*worker, needs);
      const std::tuple rank(added, units, worker->free_cpus);
      if (best && rank >= least) continue;
      best = Assignment{worker->id, devices};
      least = rank;
    }
    if (!best) waiting_.insert(&task);
    return best;
  }

 private:
  [[nodiscard]] std::pair<float, DeviceSet> step(const Worker& worker, const Needs& needs) const {
    FgdShape shape{worker.spec.devices, {}};
    expected_.add_kinds(shape);
    std::vector<DeviceSet> choices{worker.choose(needs)};
    for (std::size_t i = 0; needs.gpus == 1 && i < worker.spec.devices.size(); ++i) {
      if (i == 0) choices.clear();
      const DeviceSet one{std::uint64_t{1} << i};
      if (worker.gives(one, needs)) choices.push_back(one);
    }
    const float now = expected_.fragmentation(fgd_rooms(worker), shape);
    std::pair<float, DeviceSet> best{std::numeric_limits<float>::infinity(), {}};
    for (const DeviceSet devices : choices) {
      FgdRooms then = fgd_rooms(worker);
      then.cpus -= needs.cpus;
      devices.each([&](DeviceId id) { then.of[id.value] -= needs.share; });
      const float added = expected_.fragmentation(then, shape) - now;
      if (added < best.first) best = {added, devices};
    }
    return best;
  }

  FgdExpectation expected_;
  std::set<const TaskSpec*> waiting_;
};

TEST(Policy, FgdChoosesAsItsTwin) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    FgdPolicy policy;
    compare_with_twin(policy, NaiveFgd(), seed);
  }
}

TEST(Policy, FgdKeepsWholeDevicesForThoseWhoNeedThem) {
  FgdPolicy policy;
  WorkerPool pool;
  for (std::uint32_t i = 1; i <= 4; ++i) {
    WorkerSpec spec{.name = "w" + std::to_string(i), .cpus = 32, .memory_mb = 1024};
    for (int n = 0; n < 2; ++n) spec.devices.push_back({std::to_string(n), "T4", 16384});
    pool.put(WorkerId{i}, spec);
    pool.set_open(WorkerId{i}, true);
  }
  const TaskSpec half{.name = "t", .gpu_share = 5000, .cpus = 2};
  const TaskSpec both{.name = "t", .required_gpus = 2, .cpus = 8};
  // Half devices and pairs of whole ones come in turn: halves share, and three pairs find a place.
  int placed = 0;
  for (int i = 0; i < 7; ++i) {
    const TaskSpec& task = i % 2 == 0 ? half : both;
    const std::optional<Assignment> chosen = policy.try_assign(pool, task);
    if (!chosen) continue;
    ++placed;
    EXPECT_TRUE(pool.at(chosen->worker).gives(chosen->devices, needs_of(task)));
    pool.take(chosen->worker, chosen->devices, needs_of(task));
  }
  EXPECT_EQ(placed, 7);
  EXPECT_FALSE(policy.try_assign(pool, both));
  EXPECT_THROW(static_cast<void>(policy.assign_task(pool, both)), Error);
}

TEST(Needs, SharesAddUpAndWhatIsTakenIsGivenBack) {
  Worker worker;
  worker.spec.devices = {{"0", "NVIDIA A100-SXM4-80GB", 81920}, {"1", "Tesla T4", 16384}};
  worker.spec.resources = {{"fpga", 2}};
  worker.free = first_devices(2);
  worker.free_resources = {2};
  Needs third{.gpus = 1, .share = 3333};
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(worker.fits(third)) << i;
    worker.take(worker.choose(third), third, true);
  }
  EXPECT_FALSE(worker.fits(third)) << "a ten-thousandth of each is left";
  EXPECT_TRUE(worker.fits({.gpus = 1, .share = 1}));
  EXPECT_EQ(worker.room(DeviceId{0}), 1U);
  for (int i = 0; i < 6; ++i) worker.give_back(DeviceSet{i < 3 ? 1U : 2U}, third, true);
  EXPECT_EQ(worker.free, first_devices(2));
  EXPECT_TRUE(worker.rooms.empty());
  Needs model{.gpus = 1, .terms = TaskTerms{.gpu_models = {"a100"}}};
  EXPECT_EQ(worker.choose(model), DeviceSet{1});
  EXPECT_FALSE(worker.fits({.gpus = 1, .terms = TaskTerms{.gpu_models = {"A10", "80"}}}));
  Needs counted{.terms = TaskTerms{.resources = {{"fpga", 2}}, .apart = "db"}};
  worker.take({}, counted, true);
  EXPECT_FALSE(worker.fits({.terms = TaskTerms{.resources = {{"fpga", 1}}}}));
  EXPECT_FALSE(worker.fits({.terms = TaskTerms{.apart = "db"}}));
  EXPECT_TRUE(worker.fits({.terms = TaskTerms{.apart = "web"}}));
  worker.give_back({}, counted, true);
  EXPECT_TRUE(worker.fits(counted));
  EXPECT_EQ(share_text(2500), "0.25");
  EXPECT_EQ(share_text(20'000), "2");
  expect_broken_check("got back what it did not give",
                      [&] { worker.give_back(DeviceSet{1}, third, true); });
}

TEST(Policy, SimpleChoosesWhatItsTwinChooses) {
  SimplePolicy policy;
  for (std::uint64_t seed = 0; seed < 60; ++seed) compare_with_twin(policy, naive_simple, seed);
}

TEST(Policy, BalancedChoosesWhatItsTwinChooses) {
  BalancedPolicy policy;
  for (std::uint64_t seed = 0; seed < 60; ++seed) compare_with_twin(policy, naive_balanced, seed);
}

WorkerSpec named(std::string name, std::vector<std::uint64_t> memories) {
  WorkerSpec spec{.name = std::move(name)};
  for (const std::uint64_t memory_mb : memories) {
    spec.devices.push_back({std::to_string(spec.devices.size()), "RTX3090", memory_mb});
  }
  return spec;
}

class PolicyExamples : public testing::Test {
 protected:
  void add(std::uint32_t id, std::vector<std::uint64_t> memories) {
    pool_.put(WorkerId{id}, named("worker-" + std::to_string(id), std::move(memories)));
    pool_.set_open(WorkerId{id}, true);
  }
  static TaskSpec task(std::uint32_t gpus, std::uint64_t memory_mb) {
    return {.name = "t", .required_gpus = gpus, .min_gpu_memory_mb = memory_mb};
  }
  WorkerPool pool_;
};

TEST_F(PolicyExamples, SimpleLeavesTheLeast) {
  add(1, {24576, 24576, 24576, 24576});
  add(2, {24576, 24576});
  add(10, {16384, 24576});
  SimplePolicy policy;
  EXPECT_EQ(policy.assign_task(pool_, task(2, 8192)).worker, WorkerId{10}) << "less surplus memory";
  EXPECT_EQ(policy.assign_task(pool_, task(2, 20000)).worker, WorkerId{2});
  EXPECT_EQ(policy.assign_task(pool_, task(3, 1)).worker, WorkerId{1});
  pool_.take(WorkerId{2}, DeviceSet{1}, Needs{.gpus = 1});
  const Assignment one = policy.assign_task(pool_, task(1, 20000));
  EXPECT_EQ(one.worker, WorkerId{2}) << "several tasks on one worker";
  EXPECT_EQ(one.devices, DeviceSet{2});
}

TEST_F(PolicyExamples, BalancedSpreads) {
  add(1, {24576, 24576});
  add(2, {24576, 24576});
  add(3, {24576, 24576, 24576, 24576});
  BalancedPolicy policy;
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 8; ++i) {
    const Assignment chosen = policy.assign_task(pool_, task(1, 1));
    pool_.take(chosen.worker, chosen.devices, Needs{.gpus = 1});
    order.push_back(chosen.worker.value);
  }
  EXPECT_EQ(order, (std::vector<std::uint32_t>{3, 1, 2, 3, 3, 1, 2, 3}));
  EXPECT_THROW(policy.assign_task(pool_, task(1, 1)), Error);
}

TEST_F(PolicyExamples, AWorkerWithoutDevicesRunsWhatNeedsNone) {
  pool_.put(WorkerId{1}, {.name = "cpu", .cpus = 2});
  pool_.set_open(WorkerId{1}, true);
  BalancedPolicy policy;
  TaskSpec spec = task(0, 0);
  spec.cpus = 2;
  EXPECT_EQ(policy.assign_task(pool_, spec).devices, DeviceSet{});
  pool_.take(WorkerId{1}, {}, needs_of(spec));
  EXPECT_EQ(policy.try_assign(pool_, spec), std::nullopt);
}

TEST_F(PolicyExamples, MistakesInThePoolAreLoud) {
  add(1, {1});
  pool_.take(WorkerId{1}, DeviceSet{1}, {});
  expect_broken_check("is taken", [&] { pool_.take(WorkerId{1}, DeviceSet{1}, {}); });
  expect_broken_check("while it had tasks", [&] { pool_.put(WorkerId{1}, {}); });
  pool_.give_back(WorkerId{1}, DeviceSet{1}, {});
  expect_broken_check("did not give", [&] { pool_.give_back(WorkerId{1}, DeviceSet{1}, {}); });
  expect_broken_check("no worker with number 9", [&] { (void)pool_.at(WorkerId{9}); });
}

std::uint32_t level_of(WorkloadPolicy& policy, std::uint32_t timeout_s, int waited_h, int ran_h,
                       std::uint32_t gpus = 1) {
  const TaskSpec spec{.name = "t", .required_gpus = gpus, .timeout_s = timeout_s};
  return policy.level({spec, std::chrono::hours(waited_h), std::chrono::hours(ran_h)});
}

TEST(Policy, LevelsGoByLimitsAndWaiting) {
  SimplePolicy policy;
  EXPECT_EQ(policy.rule(), OrderRule::kShares);
  EXPECT_LT(level_of(policy, 600, 0, 0), level_of(policy, 3600, 0, 0));
  EXPECT_LT(level_of(policy, 3600, 0, 0), level_of(policy, 0, 0, 0));
  EXPECT_LT(level_of(policy, 0, 0, 0), level_of(policy, 3 * 24 * 3600, 0, 0)) << "none is a day";
  EXPECT_LT(level_of(policy, 7 * 24 * 3600, 24 * 100, 0), level_of(policy, 0, 0, 0))
      << "everybody's turn comes";
  EXPECT_EQ(level_of(policy, 600, 0, 0), level_of(policy, 600, 0, 5)) << "runs are not counted";
}

TEST(Policy, LasGoesByServiceAndSrtfByWhatIsLeft) {
  LasPolicy las;
  EXPECT_EQ(las.rule(), OrderRule::kDisplaces);
  EXPECT_EQ(level_of(las, 0, 0, 0), 0U);
  EXPECT_LT(level_of(las, 0, 0, 0), level_of(las, 0, 0, 2));
  EXPECT_LT(level_of(las, 0, 0, 2), level_of(las, 0, 0, 2, 8)) << "devices count";
  EXPECT_LT(level_of(las, 0, 400, 20), level_of(las, 0, 0, 20));
  EXPECT_LT(level_of(las, 3600 * 21, 0, 20), level_of(las, 0, 0, 20)) << "an hour is left";
  SrtfPolicy srtf;
  EXPECT_LT(level_of(srtf, 3600 * 10, 0, 9), level_of(srtf, 3600 * 2, 0, 0));
  EXPECT_EQ(level_of(srtf, 3600, 0, 9), 0U) << "past its limit";
}

TEST(Policy, UnknownNamesListTheKnown) {
  try {
    (void)make_policy("unfair");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(listed(policy_names())), std::string::npos);
  }
  EXPECT_NE(make_policy("simple"), nullptr);
  for (const std::string& name : policy_names()) EXPECT_NE(make_policy(name), nullptr) << name;
}

}  // namespace
}  // namespace harmonics::inline in_cluster
