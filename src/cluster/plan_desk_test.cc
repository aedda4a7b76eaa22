// Pipelines in the server's reactor: asked for, planned, started, planned again on what is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/cluster/reactor.h>

namespace harmonics::inline in_cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PlanDeskTest : public testing::Test {
 protected:
  WorkerId join(const std::string& name) {
    HelloMessage hello;
    hello.spec.name = hello.spec.identity = name;
    hello.spec.address = name + ":1";
    hello.spec.devices.push_back({"0", "", 8192});
    reactor_.handle(WorkerHello{RequestId{1}, hello}, now_, out_);
    return reactor_.state().find_worker(name)->id;
  }
  void leave(WorkerId worker) {
    reactor_.handle(WorkerGone{worker, reactor_.session(worker).epoch}, now_, out_);
  }
  TaskId submit(std::uint32_t stages, bool pipeline = true, bool elastic = false,
                bool waits_for_machines = false) {
    const TaskId id = reactor_.state().next_task();
    TaskSpec spec;
    spec.name = "t";
    spec.wait_for_machines = waits_for_machines;
    spec.max_retries = 3;
    if (pipeline) set_pipeline(spec, {.model = "m", .graph = "g", .stages = stages});
    if (elastic) {
      PipelineSpec moving = *spec.pipeline;
      moving.elastic = true;
      set_pipeline(spec, std::move(moving));
    }
    spec.on_disconnect = kPipelineOnDisconnect;
    reactor_.handle(SubmitRequest{RequestId{1}, {"ann", false}, spec}, now_, out_);
    return id;
  }
  /// What the planner is asked since the last call.
  std::vector<AskPlan> asked() {
    reactor_.tick(now_, out_);
    std::vector<AskPlan> asked;
    for (const ServerEffect& effect : out_.effects) {
      if (const auto* ask = std::get_if<AskPlan>(&effect)) asked.push_back(*ask);
      if (const auto* send = std::get_if<SendToWorker>(&effect)) {
        if (const auto* start = std::get_if<StartMessage>(&send->message))
          starts_.push_back(*start);
      }
    }
    out_.clear();
    return asked;
  }
  void plan(TaskId task, std::vector<WorkerId> stages, bool measures = false) {
    const std::string text = "the plan";
    reactor_.handle(PlanMade{task, std::move(stages), text, {}, measures, false}, now_, out_);
  }
  void plan_of(TaskId task, std::vector<WorkerId> stages, int period_s) {
    const std::string text = R"({"period_s": )" + std::to_string(period_s) + "}";
    reactor_.handle(PlanMade{task, std::move(stages), text, {}, false, false}, now_, out_);
  }
  void no_plan(TaskId task, bool hopeless) {
    reactor_.handle(PlanMade{task, {}, {}, "too little memory", false, hopeless}, now_, out_);
  }
  static std::vector<std::string> names(const AskPlan& ask) {
    std::vector<std::string> names;
    for (const PlanPlace& place : ask.places) names.push_back(place.spec.name);
    return names;
  }
  std::string state_of(TaskId task) {
    return std::string(state_name(reactor_.state().find_task(task)->state));
  }

  Time now_ = std::chrono::hours(1);
  Outbox out_;
  BalancedPolicy policy_;
  ServerReactor reactor_{ClusterState{}, policy_, ServerOptions{}, now_, out_};
  std::vector<StartMessage> starts_;
};

TEST_F(PlanDeskTest, IsAskedOnceAndStartsWhatThePlanSays) {
  const WorkerId a = join("a");
  const WorkerId b = join("b");
  join("c");
  const TaskId task = submit(2);
  auto questions = asked();
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_THAT(names(questions[0]), ElementsAre("a", "b", "c"));
  EXPECT_TRUE(asked().empty());
  plan(task, {b, a});
  EXPECT_TRUE(asked().empty());
  ASSERT_EQ(starts_.size(), 2U);
  EXPECT_EQ(starts_[0].plan, "the plan");
  EXPECT_EQ(starts_[0].peers[0].worker_name, "b");
  EXPECT_EQ(starts_[1].gang_rank, 1U);
  // A restart knows it too.
  ClusterState copy;
  reactor_.state().snapshot([&](const Fact& fact) { copy.apply(fact); });
  EXPECT_EQ(std::get<Active>(copy.find_task(task)->state).plan, "the plan");
  EXPECT_TRUE(copy == reactor_.state());
}

TEST_F(PlanDeskTest, WorkersOfAPlanInTheMakingAreKept) {
  const WorkerId a = join("a");
  const TaskId pipeline = submit(1);
  const TaskId other = submit(0, false);
  EXPECT_EQ(asked().size(), 1U);
  EXPECT_EQ(state_of(other), "pending");
  plan(pipeline, {a});
  asked();
  EXPECT_EQ(state_of(pipeline), "active");
  EXPECT_EQ(state_of(other), "pending");
}

TEST_F(PlanDeskTest, APlanThatNoLongerFitsIsMadeAgain) {
  const WorkerId a = join("a");
  const WorkerId b = join("b");
  const TaskId task = submit(0);
  EXPECT_EQ(asked().size(), 1U);
  leave(b);
  plan(task, {a, b});
  const auto questions = asked();
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_THAT(names(questions[0]), ElementsAre("a"));
  plan(task, {a});
  asked();
  EXPECT_EQ(state_of(task), "active");
}

TEST_F(PlanDeskTest, WithoutAPlanItWaitsAndHoldsUpNobody) {
  join("a");
  const TaskId task = submit(0);
  EXPECT_EQ(asked().size(), 1U);
  no_plan(task, false);
  EXPECT_TRUE(asked().empty()) << "nothing has changed";
  EXPECT_THAT(reactor_.why(task, now_).text, HasSubstr("too little memory"));
  const TaskId second = submit(0);
  EXPECT_EQ(asked().size(), 1U) << "for the second one";
  no_plan(second, false);
  join("b");
  const auto questions = asked();
  ASSERT_FALSE(questions.empty()) << "another worker may help";
  EXPECT_EQ(questions[0].task, task);
}

TEST_F(PlanDeskTest, WhatCanNeverBePlannedFails) {
  join("a");
  const TaskId task = submit(0);
  asked();
  no_plan(task, true);
  asked();
  EXPECT_EQ(state_of(task), "failed");
}

TEST_F(PlanDeskTest, ALostWorkerLeavesAPlanOnTheOthers) {
  const WorkerId a = join("a");
  const WorkerId b = join("b");
  const TaskId task = submit(2);
  asked();
  plan(task, {a, b});
  asked();
  leave(b);
  now_ += std::chrono::seconds(20);
  reactor_.handle(WorkerSays{a, reactor_.session(a).epoch, HeartbeatMessage{1}}, now_, out_);
  now_ += std::chrono::seconds(20);
  EXPECT_TRUE(asked().empty()) << "a is still to stop";
  const AttemptId first{task, AttemptNumber{1}};
  reactor_.handle(
      WorkerSays{a, reactor_.session(a).epoch, EndedMessage{first, {EndKind::kStopped, 0, 0, {}}}},
      now_, out_);
  const auto questions = asked();
  ASSERT_EQ(questions.size(), 1U) << "fewer than its stages, since it has run before";
  EXPECT_THAT(names(questions[0]), ElementsAre("a"));
  plan(task, {a});
  asked();
  EXPECT_EQ(reactor_.state().find_task(task)->attempts.value, 2U);
  EXPECT_EQ(reactor_.state().find_task(task)->losses, 1U);
}

TEST_F(PlanDeskTest, WorkersThatRunNoStagesAreNotAsked) {
  const WorkerId a = join("a");
  HelloMessage apart;
  apart.spec.name = apart.spec.identity = "apart";
  apart.spec.devices.push_back({"0", "", 8192});
  apart.spec.no_stages = true;
  reactor_.handle(WorkerHello{RequestId{1}, apart}, now_, out_);
  const TaskId two = submit(2);
  EXPECT_TRUE(asked().empty()) << "one is not enough";
  const WhyPending why = reactor_.why(two, now_);
  EXPECT_EQ(why.reason, WhyPending::Reason::kImpossible);
  EXPECT_THAT(why.text, HasSubstr("apart runs no stages: "));
  EXPECT_THAT(why.text, HasSubstr("--task-user"));
  const TaskId one = submit(1);
  auto questions = asked();
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_THAT(names(questions[0]), ElementsAre("a"));
  plan(one, {a});
  EXPECT_TRUE(asked().empty());
  const TaskId other = submit(0, false);
  asked();
  EXPECT_EQ(state_of(other), "active") << "for anything else it is as good as any";
  EXPECT_EQ(reactor_.why(other, now_).text.find("stages"), std::string::npos);
}

TEST_F(PlanDeskTest, AWorkerThatCanRunStagesNowIsAskedAndTheOtherWayRound) {
  join("a");
  HelloMessage hello;
  hello.spec.name = hello.spec.identity = "a";
  hello.spec.address = "a:1";
  hello.spec.devices.push_back({"0", "", 8192});
  hello.spec.no_stages = true;
  reactor_.handle(WorkerHello{RequestId{1}, hello}, now_, out_);
  EXPECT_EQ(reactor_.state().find_task(submit(1)), nullptr) << "nobody could ever run it";
  const TaskId task = submit(1, true, false, /*waits_for_machines=*/true);
  EXPECT_TRUE(asked().empty());
  // A restart knows it too.
  ClusterState copy;
  reactor_.state().snapshot([&](const Fact& fact) { copy.apply(fact); });
  EXPECT_TRUE(copy.find_worker("a")->spec.no_stages);
  EXPECT_TRUE(copy.pool().find("a")->spec.no_stages);
  hello.spec.no_stages = false;
  reactor_.handle(WorkerHello{RequestId{1}, hello}, now_, out_);
  ASSERT_EQ(asked().size(), 1U);
  EXPECT_EQ(reactor_.why(task, now_).reason, WhyPending::Reason::kPlanning);
}

TEST_F(PlanDeskTest, AfterMeasuringItIsPlannedAgain) {
  const WorkerId a = join("a");
  const TaskId task = submit(1);
  asked();
  plan(task, {a}, true);
  asked();
  reactor_.handle(
      WorkerSays{a, reactor_.session(a).epoch,
                 EndedMessage{{task, AttemptNumber{1}}, {EndKind::kSucceeded, 0, 0, {}}}},
      now_, out_);
  EXPECT_EQ(state_of(task), "pending") << "its end is not the task's";
  EXPECT_EQ(asked().size(), 1U);
  plan(task, {a});
  asked();
  EXPECT_EQ(state_of(task), "active");
  EXPECT_EQ(reactor_.state().find_task(task)->failures, 0U);
}

TEST_F(PlanDeskTest, AnElasticPipelineMovesToAPlanThatIsWorthIt) {
  const WorkerId a = join("a");
  const TaskId task = submit(0, true, true);
  asked();
  plan_of(task, {a}, 10);
  asked();
  EXPECT_TRUE(asked().empty()) << "nobody else is there";
  const WorkerId b = join("b");
  auto questions = asked();
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_THAT(names(questions[0]), ElementsAre("a", "b"));
  plan_of(task, {a, b}, 9);
  asked();
  EXPECT_FALSE(std::get<Active>(reactor_.state().find_task(task)->state).stopping) << "too little";
  const WorkerId c = join("c");
  EXPECT_EQ(asked().size(), 1U);
  plan_of(task, {a, c}, 5);
  asked();
  EXPECT_TRUE(std::get<Active>(reactor_.state().find_task(task)->state).stopping);
  reactor_.handle(WorkerSays{a, reactor_.session(a).epoch,
                             EndedMessage{{task, AttemptNumber{1}}, {EndKind::kStopped, 0, 0, {}}}},
                  now_, out_);
  EXPECT_EQ(asked().size(), 1U) << "planned again, with all that are free";
  plan_of(task, {a, c}, 5);
  asked();
  EXPECT_EQ(state_of(task), "active");
  EXPECT_EQ(reactor_.state().find_task(task)->failures, 0U);
}

TEST_F(PlanDeskTest, TheRunningPlanIsReckonedLikeTheNewOne) {
  const WorkerId a = join("a");
  const TaskId task = submit(0, true, true);
  EXPECT_EQ(asked().at(0).running, "");
  plan_of(task, {a}, 10);
  asked();
  const WorkerId b = join("b");
  EXPECT_EQ(asked().at(0).running, R"({"period_s": 10})");
  const auto answer = [&](double running_period_s) {
    PlanMade made{task, {a, b}, R"({"period_s": 5})", {}, false, false};
    made.running_period_s = running_period_s;
    reactor_.handle(made, now_, out_);
    asked();
    return std::get<Active>(reactor_.state().find_task(task)->state).stopping.has_value();
  };
  // It was estimated at 10; by what is known now it takes no longer than the new one would.
  EXPECT_FALSE(answer(5));
  join("c");
  EXPECT_EQ(asked().size(), 1U);
  EXPECT_TRUE(answer(6));
}

TEST_F(PlanDeskTest, BeforeItHasRunItWaitsForAllItsStages) {
  join("a");
  const TaskId task = submit(2);
  EXPECT_TRUE(asked().empty());
  EXPECT_EQ(reactor_.why(task, now_).reason, WhyPending::Reason::kImpossible);
  join("b");
  EXPECT_EQ(asked().size(), 1U);
}

}  // namespace
}  // namespace harmonics::inline in_cluster
