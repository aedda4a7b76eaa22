// What every learner promises (learner.h), whatever computes it. A new kind joins with a line in
// kinds().
#include <harmonics/schedule/learner.h>

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/data/memory_consumer.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/schedule/remote_scheduler.h>
#include <harmonics/schedule/replica_scheduler.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

#include "remote/remote_testing.h"

namespace harmonics::inline in_schedule {
namespace {

/// All of them cut a batch in two, so that all of them learn the same bits.
RuntimeOptions sliced(int micro_batches = 2) {
  RuntimeOptions options = test_runtime();
  options.micro_batches = micro_batches;
  return options;
}

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Learner>(const HarmonicGraph&)> make;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

std::vector<Kind> kinds() {
  return {
      {"CycleRuntime",
       [](const HarmonicGraph& graph) { return std::make_unique<CycleRuntime>(graph, sliced()); }},
      {"CycleRuntimeThatComputesAgain",
       [](const HarmonicGraph& graph) {
         RuntimeOptions options = sliced();
         options.recompute = 2;
         return std::make_unique<CycleRuntime>(graph, options);
       }},
      {"DistributedScheduler",
       [](const HarmonicGraph& graph) {
         return std::make_unique<DistributedScheduler>(partition_graph(graph, 2),
                                                       DeploymentDescriptor{}, sliced());
       }},
      {"RemoteScheduler",
       [](const HarmonicGraph& graph) {
         RemoteOptions options = test_remote();
         options.runtime = sliced();
         return std::make_unique<RemoteScheduler>(graph, std::vector<RemoteBinding>{},
                                                  std::vector<RemoteBinding>{},
                                                  DeploymentDescriptor{}, options);
       }},
      {"ReplicaScheduler",
       [](const HarmonicGraph& graph) {
         return std::make_unique<ReplicaScheduler>(std::vector{graph},
                                                   ReplicaOptions{.replicas = 2}, sliced(1));
       }},
  };
}

class LearnerContract : public testing::TestWithParam<Kind> {
 protected:
  [[nodiscard]] std::unique_ptr<Learner> made() const { return GetParam().make(graph_); }
  [[nodiscard]] std::unique_ptr<Learner> bound() const {
    std::unique_ptr<Learner> learner = made();
    for (const auto& [name, producer] : data()) learner->bindProducer(name, producer);
    return learner;
  }
  [[nodiscard]] NamedProducers data() const {
    NamedProducers all;
    for (const ProducerNode& node : graph_.producers()) all.emplace(node.name, test_data(node));
    return all;
  }
  [[nodiscard]] std::string expected(std::int64_t epochs) const {
    CycleRuntime alone(graph_, sliced());
    for (const auto& [name, producer] : data()) alone.bindProducer(name, producer);
    alone.fit(epochs);
    return alone.weights_digest();
  }

  const HarmonicGraph graph_ = zoo_graph("digits-mlp");
};

TEST_P(LearnerContract, LearnsTheSameBitsAndCountsAlike) {
  const auto learner = bound();
  std::int64_t steps = 0;
  FitOptions options;
  options.on_step = [&](const StepReport& step) { EXPECT_EQ(step.step, ++steps); };
  const FitReport report = learner->fit(2, options);
  EXPECT_EQ(report.epochs, 2);
  EXPECT_EQ(report.steps, steps);
  EXPECT_EQ(report.last_epoch.samples, kTestRows);
  EXPECT_EQ(learner->progress().epochs_done, 2);
  EXPECT_EQ(learner->step().step, steps + 1) << "the next epoch begins";
  const auto again = bound();
  again->fit(2);
  EXPECT_EQ(again->weights_digest(), expected(2));
  EXPECT_EQ(again->weights_digest(), weights_digest(again->parameters()));
}

TEST_P(LearnerContract, GoesOnFromACheckpointIfThereIsOne) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.safetensors";
  const auto first = bound();
  EXPECT_FALSE(first->resume({}));
  EXPECT_FALSE(first->resume(path));
  first->fit(1);
  first->save_checkpoint(path);
  const auto second = bound();
  EXPECT_TRUE(second->resume(path));
  EXPECT_EQ(second->progress().epochs_done, 1);
  EXPECT_EQ(second->weights_digest(), first->weights_digest());
  second->fit(1);
  EXPECT_EQ(second->weights_digest(), expected(2));
  const auto third = bound();
  third->load_checkpoint(path);
  EXPECT_EQ(third->progress().epochs_done, 1);
}

TEST_P(LearnerContract, InfersAndEvaluatesLikeAnother) {
  const TemporaryFolder folder;
  const auto trained = bound();
  trained->fit(1);
  trained->save_checkpoint(folder / "run.safetensors");
  const auto fresh = bound();
  fresh->load_weights(folder / "run.safetensors");
  CycleRuntime alone(graph_, sliced());
  alone.load_weights(folder / "run.safetensors");
  const Evaluation expected = alone.evaluate(data()), evaluation = fresh->evaluate(data());
  EXPECT_EQ(evaluation.samples, kTestRows);
  EXPECT_EQ(evaluation.loss, expected.loss);
  EXPECT_EQ(evaluation.accuracy, expected.accuracy);
  NamedTensors inputs;
  for (const auto& [name, producer] : data()) inputs[name] = *producer->next();
  EXPECT_EQ(weights_digest(fresh->infer(inputs)), weights_digest(alone.infer(inputs)));
}

TEST_P(LearnerContract, StreamsWhatAnotherInfers) {
  const auto learner = made();
  CycleRuntime alone(graph_, sliced());
  NamedConsumers consumers;
  std::map<std::string, std::shared_ptr<MemoryConsumer>> kept;
  for (const ConsumerNode& node : graph_.consumers()) {
    consumers[node.name] = kept[node.name] = std::make_shared<MemoryConsumer>();
  }
  const StreamReport report = learner->stream(data(), consumers);
  EXPECT_EQ(report.rows, kTestRows);
  NamedTensors inputs;
  const NamedProducers again = data();
  for (const auto& [name, producer] : again) producer->begin_epoch({sliced().seed, 0});
  for (std::size_t batch = 0; batch < 6; ++batch) {
    for (const auto& [name, producer] : again) inputs[name] = *producer->next();
    for (const auto& [name, expected] : alone.infer(inputs)) {
      ASSERT_EQ(kept.at(name)->batches().size(), 6u);
      EXPECT_EQ(weights_digest({{name, kept.at(name)->batches()[batch]}}),
                weights_digest({{name, expected}}));
    }
  }
}

TEST_P(LearnerContract, WhatCannotBeBoundIsAnError) {
  const auto learner = made();
  const std::string name = graph_.producers().front().name;
  EXPECT_THROW(learner->bindProducer(name, ProducerPtr()), Error);
  expect_error(ErrorCode::kNotFound, name,
               [&] { learner->bindProducer("nobody", test_data(graph_.producers().front())); });
  learner->bindProducer(name, test_data(graph_.producers().front()));
  EXPECT_THROW(learner->bindProducer(name, test_data(graph_.producers().front())), Error);
  EXPECT_THROW(learner->bindConsumer("nobody", nullptr), Error);
}

TEST_P(LearnerContract, WithoutSecurityThereIsNothingToProve) {
  const auto learner = bound();
  EXPECT_EQ(learner->proof(), "");
  static_cast<void>(learner->step());
  learner->close();
  EXPECT_EQ(learner->proof(), "");
  static_cast<void>(learner->step());
}

INSTANTIATE_TEST_SUITE_P(All, LearnerContract, testing::ValuesIn(kinds()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace harmonics::inline in_schedule
