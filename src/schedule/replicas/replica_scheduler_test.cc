#include <harmonics/schedule/replica_scheduler.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include <harmonics/graph/zoo.h>
#include <harmonics/schedule/cycle_runtime.h>

#include <temporary_folder_testing.h>

#include "remote/remote_testing.h"
#include "replica_producer.h"

namespace harmonics::inline in_schedule {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr auto kPatience = std::chrono::minutes(2);

RuntimeOptions one_micro_batch(int count = 1) {
  RuntimeOptions options = test_runtime();
  options.micro_batches = count;
  return options;
}

template <typename Scheduler>
void bind_all(Scheduler& scheduler, const HarmonicGraph& graph) {
  for (const ProducerNode& node : graph.producers()) {
    scheduler.bindProducer(node.name, test_data(node));
  }
}

ReplicaScheduler make_replicas(const HarmonicGraph& graph, std::size_t replicas,
                               std::size_t parts = 1) {
  ReplicaScheduler scheduler(partition_graph(graph, parts), {.replicas = replicas},
                             one_micro_batch());
  bind_all(scheduler, graph);
  return scheduler;
}

TEST(ReplicaScheduler, LearnsWhatOneProcessLearnsInAsManyMicroBatches) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  for (const std::size_t replicas : {1, 2, 4}) {
    CycleRuntime alone(graph, one_micro_batch(static_cast<int>(replicas)));
    bind_all(alone, graph);
    const FitReport expected = alone.fit(3);
    for (const std::size_t parts : {1, 2}) {
      ReplicaScheduler scheduler = make_replicas(graph, replicas, parts);
      EXPECT_EQ(scheduler.replica_count(), replicas);
      const FitReport report = scheduler.fit(3);
      EXPECT_EQ(report.steps, expected.steps);
      EXPECT_EQ(report.last_epoch.samples, kTestRows);
      EXPECT_NEAR(*report.last_epoch.train_loss, *expected.last_epoch.train_loss, 1e-9);
      EXPECT_EQ(scheduler.weights_digest(), alone.weights_digest())
          << replicas << " replicas of " << parts;
      EXPECT_EQ(scheduler.progress().epochs_done, 3);
    }
  }
}

TEST(ReplicaScheduler, EvaluatesStopsEarlyAndReportsOnce) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const auto fit = [&](auto& scheduler) {
    FitOptions options;
    for (const ProducerNode& node : graph.producers()) {
      options.evaluation.emplace(node.name, test_data(node, 200));
    }
    options.patience = 2;
    int steps = 0;
    options.on_step = [&](const StepReport&) { ++steps; };
    const FitReport report = scheduler.fit(40, options);
    EXPECT_EQ(steps, report.steps);
    return report;
  };
  CycleRuntime alone(graph, one_micro_batch(3));
  bind_all(alone, graph);
  const FitReport expected = fit(alone);
  ReplicaScheduler scheduler = make_replicas(graph, 3);
  const FitReport report = fit(scheduler);
  EXPECT_TRUE(report.stopped_early);
  EXPECT_EQ(report.epochs, expected.epochs);
  EXPECT_EQ(report.last_epoch.evaluation->loss, expected.last_epoch.evaluation->loss);
}

// The wish may come at any moment: all replicas end after the same step, and can go on.
TEST(ReplicaScheduler, EndsOnDemandInAllReplicasAtOnce) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  for (const int at : {1, 4, 9}) {
    ReplicaScheduler scheduler = make_replicas(graph, 3);
    std::atomic<bool> stop = false;
    FitOptions options;
    options.stop = &stop;
    options.on_step = [&](const StepReport& step) { stop = step.step >= at; };
    const FitReport report = scheduler.fit(1000, options);
    EXPECT_TRUE(report.interrupted);
    EXPECT_GE(report.steps, at);
    EXPECT_LE(report.steps, at + 2);
    for (std::int64_t step = report.steps; step < 12; ++step) scheduler.step();
    ReplicaScheduler whole = make_replicas(graph, 3);
    whole.fit(2);
    EXPECT_EQ(scheduler.weights_digest(), whole.weights_digest());
  }
}

TEST(ReplicaScheduler, GoesOnFromACheckpointWithAnyNumberOfReplicas) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "replicas.safetensors";
  ReplicaScheduler whole = make_replicas(graph, 2);
  for (int i = 0; i < 9; ++i) whole.step();
  ReplicaScheduler first = make_replicas(graph, 2);
  for (int i = 0; i < 4; ++i) first.step();
  first.save_checkpoint(path);
  ReplicaScheduler second = make_replicas(graph, 2);
  second.load_checkpoint(path);
  for (int i = 0; i < 5; ++i) second.step();
  EXPECT_EQ(second.weights_digest(), whole.weights_digest());
  // One process in two micro-batches goes on as two replicas do.
  CycleRuntime alone(graph, one_micro_batch(2));
  bind_all(alone, graph);
  alone.load_checkpoint(path);
  for (int i = 0; i < 5; ++i) alone.step();
  EXPECT_EQ(alone.weights_digest(), whole.weights_digest());
}

TEST(ReplicaScheduler, AnErrorNamesTheReplicaAndStopsAll) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  ReplicaScheduler scheduler(partition_graph(graph, 1), {.replicas = 3}, one_micro_batch());
  for (const ProducerNode& node : graph.producers()) {
    // Classes that are out of range in the third of every batch.
    Shape shape = *node.shape;
    shape.insert(shape.begin(), 6);
    Tensor rows = Tensor::zeros(shape, node.dtype);
    if (node.dtype == DType::kInt64) rows.mutable_values<std::int64_t>()[5] = 1000;
    scheduler.bindProducer(
        node.name, std::make_shared<BatchProducer>(std::make_shared<MemoryProducer>(rows), 6));
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      scheduler.step();
      FAIL() << "there is no class 1000";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("replica "));
      EXPECT_THAT(error.what(), HasSubstr(attempt == 0 ? "replica 2 of 3" : "has stopped"));
    }
  }
}

TEST(ReplicaScheduler, WrongNumbersAreRefused) {
  const auto parts = partition_graph(zoo_graph("digits-mlp"), 1);
  EXPECT_THROW(ReplicaScheduler(parts, {.replicas = 0}), Error);
  EXPECT_THROW(ReplicaScheduler(parts, {.replicas = kMaxReductionRanks + 1}), Error);
  ReplicaOptions two_of_three{.replicas = 3};
  two_of_three.deploy.resize(2);
  EXPECT_THROW(ReplicaScheduler(parts, two_of_three), Error);
  ReplicaScheduler scheduler(parts, {.replicas = 2});
  EXPECT_THROW(scheduler.bindProducer("image", nullptr), Error);
}

ProducerPtr counting(std::int64_t rows) {
  Tensor all = Tensor::empty({rows, 1});
  for (std::int64_t i = 0; i < rows; ++i) {
    all.mutable_values<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i);
  }
  return std::make_shared<MemoryProducer>(all);
}

TEST(ShareProducer, EveryReaderSeesEverythingInOrder) {
  const auto readers = share_producer(counting(100), 3, kPatience);
  EXPECT_EQ(readers[0]->size(), 100);
  EXPECT_EQ(readers[1]->sample_count(), 100);
  EXPECT_FALSE(readers[2]->batched());
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    for (const ProducerPtr& reader : readers) reader->begin_epoch({1, epoch});
    for (int row = 0; row <= 100; ++row) {
      for (const ProducerPtr& reader : readers) {
        const std::optional<Tensor> tensor = reader->next();
        ASSERT_EQ(tensor.has_value(), row < 100);
        ASSERT_TRUE(!tensor || tensor->values<float>()[0] == static_cast<float>(row));
      }
    }
  }
}

TEST(ShareProducer, ReadersOnThreadsWaitForEachOther) {
  const auto readers = share_producer(counting(500), 3, kPatience);
  std::vector<std::function<void()>> actions;
  for (const ProducerPtr& reader : readers) {
    actions.push_back([&] {
      reader->begin_epoch({1, 0});
      float expected = 0;
      while (const std::optional<Tensor> row = reader->next()) {
        ASSERT_EQ(row->values<float>()[0], expected++);
      }
      EXPECT_EQ(expected, 500);
      EXPECT_EQ(reader->position(), (ProducerPosition{{1, 0}, 500}));
    });
  }
  EXPECT_THAT(at_the_same_time(actions), Each(""));
}

TEST(ShareProducer, APositionIsFoundAgain) {
  const auto readers = share_producer(counting(10), 2, kPatience);
  for (const ProducerPtr& reader : readers) reader->seek({{7, 2}, 4});
  for (const ProducerPtr& reader : readers) {
    EXPECT_EQ(reader->position(), (ProducerPosition{{7, 2}, 4}));
    EXPECT_EQ(reader->next()->values<float>()[0], 4.0F);
  }
}

TEST(ShareProducer, TheLeadIsBounded) {
  const auto readers = share_producer(counting(100), 2, std::chrono::milliseconds(20));
  for (const ProducerPtr& reader : readers) reader->begin_epoch({});
  for (std::size_t i = 0; i < kMaxReplicaLead; ++i) EXPECT_TRUE(readers[0]->next());
  EXPECT_THROW(static_cast<void>(readers[0]->next()), Error);
  EXPECT_TRUE(readers[1]->next());
  EXPECT_TRUE(readers[0]->next());
  readers[0]->begin_epoch({});
  for (std::size_t i = 0; i < kMaxReplicaLead; ++i) EXPECT_TRUE(readers[1]->next());
  EXPECT_THROW(static_cast<void>(readers[1]->next()), Error);  // left behind
}

}  // namespace
}  // namespace harmonics::inline in_schedule
