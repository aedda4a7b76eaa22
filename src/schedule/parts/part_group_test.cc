// Some parts here, the others elsewhere: what they measure, decide and compute together.
#include "part_group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include <random_graph_testing.h>

#include <harmonics/base/format.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/schedule/distributed_scheduler.h>

#include "remote/remote_testing.h"

namespace harmonics::inline in_schedule {
namespace {

RemoteBinding meeting() {
  RemoteBinding binding;
  binding.host = "127.0.0.1";
  binding.port = reserved_port();
  return binding;
}

NamedProducers data_of(const HarmonicGraph& part, std::int64_t rows = kTestRows) {
  NamedProducers data;
  for (const ProducerNode& node : part.producers()) {
    if (!is_boundary_name(node.name)) data.emplace(node.name, test_data(node, rows));
  }
  return data;
}

/// Other rows than those of data_of.
NamedProducers tests_of(const HarmonicGraph& part, std::int64_t rows) {
  NamedProducers data;
  for (ProducerNode node : part.producers()) {
    if (is_boundary_name(node.name)) continue;
    const std::string name = node.name;
    node.name += " of the test";
    data.emplace(name, test_data(node, rows));
  }
  return data;
}

NamedTensors batch_of(const HarmonicGraph& graph, std::uint64_t seed) {
  NamedTensors batch;
  for (const ProducerNode& node : graph.producers()) {
    if (is_boundary_name(node.name)) continue;
    Shape shape = *node.shape;
    shape.insert(shape.begin(), 3);
    Tensor& tensor = batch[node.name] = Tensor::empty(shape, node.dtype);
    Random random(seed, node.name);
    if (node.dtype == DType::kInt64) {
      for (auto& value : tensor.mutable_values<std::int64_t>()) value = random.below(4);
    } else {
      for (auto& value : tensor.mutable_values<float>()) value = random.normal();
    }
  }
  return batch;
}

/// What a whole run ends with, wherever it is told.
struct Outcome {
  std::int64_t epochs = 0;
  std::int64_t steps = 0;
  double train_loss = 0;
  double train_accuracy = 0;
  double test_loss = 0;
  double test_accuracy = 0;
  bool stopped_early = false;
  bool operator==(const Outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << outcome.epochs << " epochs, " << outcome.steps << " steps, train "
             << outcome.train_loss << " " << outcome.train_accuracy << ", test "
             << outcome.test_loss << " " << outcome.test_accuracy << ", early "
             << outcome.stopped_early;
}

Outcome outcome_of(const FitReport& report) {
  const EpochReport& last = report.last_epoch;
  return {report.epochs,
          report.steps,
          last.train_loss.value_or(-1),
          last.train_accuracy.value_or(-1),
          last.evaluation ? last.evaluation->loss : -1,
          last.evaluation ? last.evaluation->accuracy.value_or(-1) : -1,
          report.stopped_early};
}

TEST(PartsElsewhere, MeasureAndStopEarlyAsOneProcessDoes) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  FitOptions options;
  options.patience = 1;
  CycleRuntime alone(graph, test_runtime());
  for (auto& [name, data] : data_of(graph)) alone.bindProducer(name, data);
  options.evaluation = tests_of(graph, 20);
  const Outcome expected = outcome_of(alone.fit(60, options));
  EXPECT_TRUE(expected.stopped_early) << "random labels cannot be learned";
  const Evaluation again = alone.evaluate(tests_of(graph, 12));

  const auto parts = partition_graph(graph, 3);
  const RemoteBinding place = meeting();
  std::vector<std::function<void()>> actions;
  for (const HarmonicGraph& part : parts) {
    actions.push_back([&] {
      RemoteScheduler scheduler = make_part(part, place, test_remote());
      FitOptions own;
      own.patience = 1;
      own.evaluation = tests_of(part, 20);  // nothing in the middle
      EXPECT_EQ(outcome_of(scheduler.fit(60, own)), expected) << part.name();
      const Evaluation evaluation = scheduler.evaluate(tests_of(part, 12));
      EXPECT_EQ(evaluation.loss, again.loss) << part.name();
      EXPECT_EQ(evaluation.accuracy, again.accuracy) << part.name();
      EXPECT_EQ(evaluation.samples, 12) << part.name();
    });
  }
  EXPECT_EQ(at_the_same_time(actions), std::vector<std::string>(3));
}

TEST(PartsElsewhere, InferWhatOneProcessInfers) {
  const HarmonicGraph graph = zoo_graph("lenet-digits");
  const NamedTensors batch = batch_of(graph, 3);
  CycleRuntime alone(graph, test_runtime());
  const std::string expected = weights_digest(alone.infer(batch));
  const auto parts = partition_graph(graph, 4);
  const RemoteBinding place = meeting();
  std::vector<NamedTensors> outputs(parts.size());
  std::vector<std::function<void()>> actions;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    actions.push_back([&, i] {
      RemoteScheduler scheduler = make_part(parts[i], place, test_remote());
      NamedTensors own;
      for (const auto& [name, tensor] : batch) {
        if (parts[i].producer_index(name)) own.emplace(name, tensor);
      }
      for (int round = 0; round < 3; ++round) outputs[i] = scheduler.infer(own);
    });
  }
  EXPECT_EQ(at_the_same_time(actions), std::vector<std::string>(parts.size()));
  NamedTensors all;
  for (NamedTensors& part : outputs) all.merge(part);
  EXPECT_EQ(weights_digest(all), expected);
}

// Every second part in one process: tensors leave it, come back, and leave it again.
NamedTensors train_in_two_groups(const HarmonicGraph& graph, std::size_t count,
                                 PipelineOrder order) {
  const auto parts = partition_graph(graph, count);
  RemoteOptions options = test_remote();
  options.pipeline.order = order;
  const std::string target = format("tcp://127.0.0.1:{}", reserved_port());
  std::vector<NamedTensors> weights(2);
  std::vector<std::function<void()>> actions;
  for (std::size_t group = 0; group < 2; ++group) {
    actions.push_back([&, group] {
      std::vector<HarmonicGraph> own;
      for (std::size_t i = group; i < parts.size(); i += 2) own.push_back(parts[i]);
      DeploymentDescriptor here;
      here.backend = Backend::CPU;  // the uncut graph's, whose bits are expected
      here.partitions.resize(own.size());
      for (PartitionOptions& partition : here.partitions) partition.target = target;
      DistributedScheduler scheduler(own, here, options);
      FitOptions fit;
      for (const HarmonicGraph& part : own) {
        for (auto& [name, data] : data_of(part)) scheduler.bindProducer(name, data);
        fit.evaluation.merge(tests_of(part, 10));
      }
      const FitReport report = scheduler.fit(2, fit);
      EXPECT_EQ(report.steps, 12);
      EXPECT_EQ(report.last_epoch.evaluation->samples, 10);
      weights[group] = scheduler.parameters();
    });
  }
  EXPECT_EQ(at_the_same_time(actions), std::vector<std::string>(2));
  weights[0].merge(weights[1]);
  return weights[0];
}

TEST(PartsElsewhere, AnySubsetInAProcessLearnsWhatTheWholeLearns) {
  for (const PipelineOrder order :
       {PipelineOrder::OneForwardOneBackward, PipelineOrder::GPipe, PipelineOrder::Sequential}) {
    const HarmonicGraph graph = zoo_graph("digits-mlp");
    EXPECT_EQ(weights_digest(train_in_two_groups(graph, 3, order)),
              weights_digest(train_alone(graph, 2)))
        << pipeline_order_name(order);
  }
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const HarmonicGraph graph = random_graph(seed);
    const std::size_t count = std::min<std::size_t>(2 + seed % 4, graph.layers().size());
    ASSERT_EQ(
        weights_digest(train_in_two_groups(graph, count, PipelineOrder::OneForwardOneBackward)),
        weights_digest(train_alone(graph, 2)))
        << "seed " << seed << ", " << count << " parts";
  }
}

TEST(PartsElsewhere, AnOpenBoundaryIsAnErrorThatNamesIt) {
  const auto parts = partition_graph(zoo_graph("digits-mlp"), 3);
  DistributedScheduler scheduler({parts[0], parts[1]});
  const std::string open = parts[1].consumers().front().name;
  const auto message = at_the_same_time({[&] { scheduler.step(); }}).front();
  EXPECT_NE(message.find(open), std::string::npos) << message;
  const std::string inner = parts[1].producers().front().name;
  RemoteBinding binding = meeting();
  binding.name = inner;
  const auto joined = at_the_same_time({[&] { scheduler.bindProducer(binding); }}).front();
  EXPECT_NE(joined.find("no producer '" + inner + "'"), std::string::npos) << joined;
}

TEST(PartsElsewhere, ATargetIsAnEndpointWithoutAName) {
  const auto parts = partition_graph(zoo_graph("digits-mlp"), 2);
  DeploymentDescriptor deploy;
  deploy.partitions.resize(1);
  for (const char* wrong : {"host", "tcp://host", "tcp://host:9000/name", "carrier://host:1"}) {
    deploy.partitions[0].target = wrong;
    EXPECT_THROW(DistributedScheduler({parts[0]}, deploy), Error) << wrong;
  }
}

TEST(PartsElsewhere, AnErrorInOneOfSeveralPartsEndsTheRunInAll) {
  const auto parts = partition_graph(zoo_graph("digits-mlp"), 3);
  const std::string target = format("tcp://127.0.0.1:{}", reserved_port());
  DeploymentDescriptor one, two;
  one.backend = two.backend = Backend::CPU;
  one.partitions.resize(1);
  two.partitions.resize(2);
  one.partitions[0].target = two.partitions[0].target = two.partitions[1].target = target;
  const auto errors = at_the_same_time(
      {[&] {
         DistributedScheduler scheduler({parts[0], parts[2]}, two, test_remote());
         for (auto& [name, data] : data_of(parts[0])) scheduler.bindProducer(name, data);
         // Classes that the graph does not have: the last part fails, the first waits for it.
         const ProducerNode& label =
             *std::ranges::find(parts[2].producers(), "label", &ProducerNode::name);
         Tensor wrong = Tensor::empty({kTestRows, 1}, DType::kInt64);
         for (auto& value : wrong.mutable_values<std::int64_t>()) value = 99;
         scheduler.bindProducer(label.name, std::make_shared<BatchProducer>(
                                                std::make_shared<MemoryProducer>(wrong), 8));
         scheduler.fit(1);
       },
       [&] { DistributedScheduler({parts[1]}, one, test_remote()).fit(1); }});
  EXPECT_NE(errors[0].find("part 1 of 2"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("boundary '"), std::string::npos) << errors[1];
}

TEST(PartsElsewhere, AWishToEndStopsAllPartsAfterTheSameStep) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const auto parts = partition_graph(graph, 3);
  for (std::size_t wishing = 0; wishing < parts.size(); ++wishing) {
    const RemoteBinding place = meeting();
    std::vector<std::int64_t> steps(parts.size());
    std::vector<std::function<void()>> actions;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      actions.push_back([&, i] {
        RemoteScheduler scheduler = make_part(parts[i], place, test_remote());
        std::atomic<bool> stop = false;
        FitOptions options;
        options.stop = &stop;
        options.on_step = [&](const StepReport& step) { stop = i == wishing && step.step >= 7; };
        const FitReport report = scheduler.fit(1000, options);
        EXPECT_TRUE(report.interrupted);
        steps[i] = report.steps;
        // The run can go on.
        EXPECT_EQ(scheduler.fit(1).steps / 6, (report.steps / 6) + 1);
      });
    }
    EXPECT_EQ(at_the_same_time(actions), std::vector<std::string>(parts.size()));
    EXPECT_EQ(steps, std::vector<std::int64_t>(parts.size(), 7 + 2 + 1)) << "part " << wishing;
  }
}

TEST(PartsElsewhere, PartsThatDoNotFitAlikeAreAnError) {
  const auto parts = partition_graph(zoo_graph("digits-mlp"), 2);
  const RemoteBinding place = meeting();
  const auto errors = at_the_same_time({[&] { make_part(parts[0], place, test_remote()).fit(2); },
                                        [&] { make_part(parts[1], place, test_remote()).fit(3); }});
  EXPECT_NE((errors[0] + errors[1]).find("the number of epochs is"), std::string::npos)
      << errors[0] << "\n"
      << errors[1];
}

TEST(ManyBatches, PassThePartsAtTheSameTimeAndGiveTheSame) {
  const HarmonicGraph graph = zoo_graph("lenet-digits");
  CycleRuntime alone(graph, test_runtime());
  std::vector<NamedTensors> batches;
  for (std::uint64_t seed = 0; seed < 17; ++seed) batches.push_back(batch_of(graph, seed));
  for (const std::size_t count : {1, 2, 5}) {
    DistributedScheduler scheduler(partition_graph(graph, count), {}, test_runtime());
    const std::vector<NamedTensors> outputs = scheduler.infer(batches);
    ASSERT_EQ(outputs.size(), batches.size());
    for (std::size_t i = 0; i < batches.size(); ++i) {
      EXPECT_EQ(weights_digest(outputs[i]), weights_digest(alone.infer(batches[i]))) << i;
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_schedule
