// Data-parallel replicas: the same bits in every run and replica, and what one process learns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <harmonics/data/memory_consumer.h>
#include <harmonics/data/open_producer.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/schedule/remote_scheduler.h>
#include <harmonics/schedule/replica_scheduler.h>

#include <random_graph_testing.h>
#include <tree_testing.h>

#include "remote/remote_testing.h"
#include "replica_share.h"

namespace harmonics::inline in_schedule {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

struct Plan {
  std::size_t replicas = 2;
  std::size_t parts = 1;
  std::int64_t epochs = 2;
  Reduction order = Reduction::Chain;
  std::int64_t rows = kTestRows;
  RuntimeOptions runtime = test_runtime();
};

ReductionOptions reduction_of(const Plan& run) {
  ReductionOptions options;
  options.order = run.order;
  options.chunk_bytes = 4096;
  options.first_contact = std::chrono::minutes(2);
  options.deadline = std::chrono::minutes(2);
  return options;
}

DistributedScheduler make_scheduler(const HarmonicGraph& graph, const Plan& run) {
  DistributedScheduler scheduler(partition_graph(graph, run.parts), {}, run.runtime);
  for (const ProducerNode& node : graph.producers()) {
    scheduler.bindProducer(node.name, test_data(node, run.rows));
  }
  return scheduler;
}

/// What one replica ended with.
struct Outcome {
  NamedTensors weights;
  double loss = 0;
  double accuracy = 0;
  std::int64_t steps = 0;
};

std::vector<Outcome> train_replicas(const HarmonicGraph& graph, const Plan& run) {
  std::vector<ReductionEnds> ends = make_bus_ends(run.order, run.replicas);
  std::vector<Outcome> outcomes(run.replicas);
  std::vector<std::function<void()>> actions;
  for (std::size_t i = 0; i < run.replicas; ++i) {
    actions.push_back([&, i] {
      DistributedScheduler scheduler = make_scheduler(graph, run);
      scheduler.join_replicas(std::move(ends[i]), reduction_of(run));
      const FitReport report = scheduler.fit(run.epochs);
      EXPECT_EQ(report.last_epoch.samples, run.rows);
      outcomes[i] = {scheduler.parameters(), report.last_epoch.train_loss.value_or(0),
                     report.last_epoch.train_accuracy.value_or(0), report.steps};
    });
  }
  EXPECT_THAT(at_the_same_time(actions), Each(""));
  return outcomes;
}

/// One process that cuts each batch into `micro_batches`.
Outcome train_one(const HarmonicGraph& graph, Plan run, int micro_batches) {
  run.parts = 1;
  run.runtime.micro_batches = micro_batches;
  DistributedScheduler scheduler = make_scheduler(graph, run);
  const FitReport report = scheduler.fit(run.epochs);
  return {scheduler.parameters(), report.last_epoch.train_loss.value_or(0),
          report.last_epoch.train_accuracy.value_or(0), report.steps};
}

/// The distance of two sets of weights, as a share of their size.
double relative_distance(const NamedTensors& a, const NamedTensors& b) {
  double difference = 0;
  double size = 0;
  for (const auto& [name, tensor] : a) {
    const auto left = tensor.values<float>();
    const auto right = b.at(name).values<float>();
    for (std::size_t i = 0; i < left.size(); ++i) {
      // A micro-batch of one row has no variance: its running one is lost in every run.
      if (std::isnan(left[i]) && std::isnan(right[i])) continue;
      difference += std::pow(double{left[i]} - double{right[i]}, 2);
      size += std::pow(double{left[i]}, 2);
    }
  }
  return std::sqrt(difference / size);
}

/// The weights without running statistics.
NamedTensors trained(const NamedTensors& weights) {
  NamedTensors kept;
  for (const auto& [name, tensor] : weights) {
    if (name.find(".running_") == std::string::npos) kept.emplace(name, tensor);
  }
  return kept;
}

void expect_same_bits(const std::vector<Outcome>& replicas) {
  for (const Outcome& replica : replicas) {
    EXPECT_EQ(weights_digest(replica.weights), weights_digest(replicas[0].weights));
    EXPECT_EQ(replica.loss, replicas[0].loss);
    EXPECT_EQ(replica.accuracy, replicas[0].accuracy);
  }
}

TEST(Replicas, LearnWhatOneProcessLearnsAtTheSameBatch) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  for (const Reduction order : {Reduction::Chain, Reduction::Tree, Reduction::Ring}) {
    for (const std::size_t replicas : {2, 3, 4}) {
      SCOPED_TRACE(format("{} replicas, {}", replicas, reduction_name(order)));
      Plan run;
      run.replicas = replicas;
      run.order = order;
      const auto first = train_replicas(graph, run);
      expect_same_bits(first);
      const auto second = train_replicas(graph, run);
      EXPECT_EQ(weights_digest(second[0].weights), weights_digest(first[0].weights));
      for (const int micro_batches : {1, 4}) {
        const Outcome alone = train_one(graph, run, micro_batches);
        EXPECT_LT(relative_distance(first[0].weights, alone.weights), 1e-5);
        EXPECT_NEAR(first[0].loss, alone.loss, 1e-5 * alone.loss);
        EXPECT_EQ(first[0].accuracy, alone.accuracy);
        EXPECT_EQ(first[0].steps, alone.steps);
      }
    }
  }
}

// Replicas that add in order, with one micro-batch each, do what one process does that cuts the
// batch into as many micro-batches: dropout, clipping and a last batch of four rows included.
TEST(Replicas, InAChainLearnBitForBitWhatOneProcessLearnsInAsManyMicroBatches) {
  Plan run;
  run.runtime.micro_batches = 1;
  for (const char* name : {"digits-mlp", "lenet-digits", "transformer-small"}) {
    const HarmonicGraph graph = zoo_graph(name);
    for (const std::size_t replicas : {2, 4, 5}) {
      SCOPED_TRACE(format("{}, {} replicas", name, replicas));
      run.replicas = replicas;
      run.epochs = 1;
      const auto together = train_replicas(graph, run);
      expect_same_bits(together);
      const Outcome alone = train_one(graph, run, static_cast<int>(replicas));
      EXPECT_EQ(weights_digest(trained(together[0].weights)),
                weights_digest(trained(alone.weights)));
    }
  }
}

// Unlike shares, some of them empty, some that change on the way: what one process learns that
// takes the same shares one after another.
TEST(Replicas, WithGivenSharesLearnBitForBitWhatOneProcessLearns) {
  Plan run;
  run.runtime.micro_batches = 1;
  for (const char* text : {"3,1", "1,7", "0,1", "1,2,1", "2,0,1", "3,1/3:1,3/4:1,0/6:1,1"}) {
    SCOPED_TRACE(text);
    run.runtime.shares = BatchShares::parse(text);
    run.replicas = run.runtime.shares.count();
    for (const char* name : {"digits-mlp", "transformer-small"}) {
      const HarmonicGraph graph = zoo_graph(name);
      run.epochs = name == std::string_view("digits-mlp") ? 2 : 1;
      const auto together = train_replicas(graph, run);
      expect_same_bits(together);
      const Outcome alone = train_one(graph, run, 1);
      EXPECT_EQ(weights_digest(trained(together[0].weights)),
                weights_digest(trained(alone.weights)));
      EXPECT_NEAR(together[0].loss, alone.loss, 1e-6);
    }
  }
}

TEST(Replicas, SharesThatAreForOthersAreRefused) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  Plan run;
  run.runtime.shares = BatchShares::parse("1,1,1");
  DistributedScheduler scheduler = make_scheduler(graph, run);
  try {
    scheduler.join_replicas(std::move(make_bus_ends(Reduction::Chain, 2)[0]));
    FAIL() << "three shares, two replicas";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("1,1,1 are for 3 replicas, there are 2"));
  }
}

/// A scheduler whose passes take so many times as long.
DistributedScheduler make_slow(const HarmonicGraph& graph, const Plan& run, const char* slowdown) {
  ::setenv("HARMONICS_SLOWDOWN", slowdown, 1);
  DistributedScheduler scheduler = make_scheduler(graph, run);
  static_cast<void>(scheduler.trainer());
  ::unsetenv("HARMONICS_SLOWDOWN");
  return scheduler;
}

// The slow one gets fewer rows; what was dealt says how to learn the same in one process.
TEST(Replicas, ThatAreSlowGetFewerRows) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  Plan run;
  run.rows = 64 * kTestBatch;
  run.epochs = 1;
  run.runtime.micro_batches = 1;
  run.runtime.shares = BatchShares::parse("auto");
  auto ends = make_bus_ends(Reduction::Chain, 2);
  std::vector<DistributedScheduler> schedulers;
  schedulers.push_back(make_scheduler(graph, run));
  schedulers.push_back(make_slow(graph, run, "20"));
  std::vector<std::function<void()>> actions;
  for (std::size_t i = 0; i < 2; ++i) {
    actions.push_back([&, i] {
      schedulers[i].join_replicas(std::move(ends[i]), reduction_of(run));
      schedulers[i].fit(run.epochs);
    });
  }
  EXPECT_THAT(at_the_same_time(actions), Each(""));
  const BatchShares dealt = *schedulers[0].trainer().row().runner().dealt();
  EXPECT_EQ(dealt, *schedulers[1].trainer().row().runner().dealt());
  const ShareWeights* const last = dealt.at(1'000'000);
  ASSERT_NE(last, nullptr) << "the shares never changed";
  EXPECT_GT((*last)[0], (*last)[1]);
  run.runtime.shares = dealt;
  EXPECT_EQ(schedulers[0].weights_digest(), weights_digest(train_one(graph, run, 1).weights));
  EXPECT_EQ(schedulers[1].weights_digest(), schedulers[0].weights_digest());
}

// The digits of the examples, two hundred steps at a batch of 64.
TEST(Replicas, TwoHundredStepsOfDigits) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const std::filesystem::path folder = source_folder() / "examples" / "data";
  const auto learn = [&](auto& scheduler) {
    const auto bind = [&](const char* name, const char* spec) {
      const auto rows = std::make_shared<ShuffleProducer>(open_producer(spec, folder));
      scheduler.bindProducer(name, std::make_shared<BatchProducer>(rows, 64));
    };
    bind("image", "csv:digits.csv?columns=0-63&scale=0.0625");
    bind("label", "csv:digits.csv?columns=64&dtype=int64");
    for (int step = 0; step < 200; ++step) scheduler.step();
    return scheduler.parameters();
  };
  RuntimeOptions options;
  options.threads = 1;
  CycleRuntime alone(graph, options);
  const NamedTensors expected = learn(alone);
  for (const std::size_t replicas : {2, 4}) {
    ReplicaScheduler first({graph}, {.replicas = replicas}, options);
    ReplicaScheduler second({graph}, {.replicas = replicas}, options);
    const NamedTensors weights = learn(first);
    EXPECT_LT(relative_distance(weights, expected), 1e-5) << replicas;
    EXPECT_EQ(weights_digest(weights), weights_digest(learn(second)));
  }
}

TEST(Replicas, DropoutFallsOnTheSameSamples) {
  const HarmonicGraph graph = parse_harp(R"(
    producer x {6}; producer label {1} int64; consumer out;
    layer first linear(out=32); layer drop dropout(p=0.5); layer last linear(out=4);
    cycle { x -(relu)-> first -> drop -> last; last -> out; last <-(cross_entropy)- label; }
  )");
  Plan run;
  run.runtime.micro_batches = 1;
  run.replicas = 2;
  const auto together = train_replicas(graph, run);
  EXPECT_EQ(weights_digest(together[0].weights), weights_digest(train_one(graph, run, 2).weights));
  EXPECT_LT(relative_distance(together[1].weights, train_one(graph, run, 1).weights), 1e-5);
}

// Statistics are of a micro-batch; running ones follow the micro-batches in order.
TEST(Replicas, BatchNormFollowsOneProcessInAsManyMicroBatches) {
  const HarmonicGraph graph = parse_harp(R"(
    producer x {6}; producer label {1} int64; consumer out;
    layer first linear(out=16); layer norm batch_norm(momentum=0.3); layer last linear(out=4);
    cycle { x -> first -> norm -> last; last -> out; last <-(cross_entropy)- label; }
  )");
  for (const std::size_t replicas : {2, 4}) {
    Plan run;
    run.rows = 40;  // two rows at least in every micro-batch
    run.replicas = replicas;
    run.runtime.micro_batches = 1;
    const auto together = train_replicas(graph, run);
    expect_same_bits(together);
    const Outcome alone = train_one(graph, run, static_cast<int>(replicas));
    EXPECT_LT(relative_distance(together[0].weights, alone.weights), 1e-5);
    const auto running = together[0].weights.at("norm.running_var").values<float>();
    const auto expected = alone.weights.at("norm.running_var").values<float>();
    for (std::size_t i = 0; i < running.size(); ++i) {
      EXPECT_NEAR(running[i], expected[i], 1e-5 * expected[i]);
    }
  }
}

TEST(Replicas, OfAPipelineLearnTheSame) {
  for (const char* name : {"digits-mlp", "transformer-small"}) {
    const HarmonicGraph graph = zoo_graph(name);
    Plan run;
    run.epochs = 1;
    run.runtime.micro_batches = 2;
    const auto whole = train_replicas(graph, run);
    for (const std::size_t parts : {2, 3}) {
      run.parts = parts;
      const auto cut = train_replicas(graph, run);
      expect_same_bits(cut);
      EXPECT_EQ(weights_digest(cut[0].weights), weights_digest(whole[0].weights)) << parts;
    }
  }
}

// Two pipelines of two parts, each part with a scheduler of its own: every part sums with its copy.
// The last batch has one row, so that one pipeline has nothing to do.
TEST(Replicas, OfPartsWithSchedulersOfTheirOwnLearnTheSame) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const auto parts = partition_graph(graph, 2);
  RemoteOptions options = test_remote();
  options.runtime.micro_batches = 1;
  const auto somewhere = [] { return RemoteBinding{"", "127.0.0.1", reserved_port()}; };
  const RemoteBinding meeting = somewhere();
  const std::vector<RemoteBinding> pipelines = {somewhere(), somewhere()};
  std::vector<NamedTensors> weights(4);
  std::vector<std::function<void()>> actions;
  for (std::size_t i = 0; i < 4; ++i) {
    actions.push_back([&, i] {
      const std::size_t replica = i / 2;
      const HarmonicGraph& part = parts[i % 2];
      std::vector<RemoteBinding> entering, leaving;
      const auto at = [&](const std::string& name) {
        RemoteBinding binding = pipelines[replica];
        binding.name = name;
        return binding;
      };
      for (const ProducerNode& node : part.producers()) {
        if (is_boundary_name(node.name)) entering.push_back(at(node.name));
      }
      for (const ConsumerNode& node : part.consumers()) {
        if (is_boundary_name(node.name)) leaving.push_back(at(node.name));
      }
      RemoteScheduler scheduler(part, entering, leaving, {}, options);
      for (const ProducerNode& node : part.producers()) {
        if (!is_boundary_name(node.name)) scheduler.bindProducer(node.name, test_data(node, 41));
      }
      Plan run;
      scheduler.join_replicas(
          make_remote_ends(Reduction::Chain, replica, {meeting, meeting}, format("part{}", i % 2)),
          reduction_of(run));
      EXPECT_EQ(scheduler.fit(2).steps, 12);
      weights[i] = scheduler.parameters();
    });
  }
  EXPECT_THAT(at_the_same_time(actions), Each(""));
  EXPECT_EQ(weights_digest(weights[0]), weights_digest(weights[2]));
  EXPECT_EQ(weights_digest(weights[1]), weights_digest(weights[3]));
  weights[0].merge(weights[1]);
  Plan run;
  run.rows = 41;
  EXPECT_EQ(weights_digest(weights[0]), weights_digest(train_one(graph, run, 2).weights));
}

// Batch norm, dropout, several taps, parameters that no loss reaches.
TEST(Replicas, RandomGraphsLearnWhatOneProcessLearns) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const HarmonicGraph graph = random_graph(seed);
    Plan run;
    run.epochs = 1;
    run.replicas = 2 + seed % 3;
    run.runtime.micro_batches = 1;
    run.runtime.optimizer.kind = OptimizerKind::kSgd;
    const auto together = train_replicas(graph, run);
    expect_same_bits(together);
    const Outcome alone = train_one(graph, run, static_cast<int>(run.replicas));
    EXPECT_LT(relative_distance(together[0].weights, alone.weights), 1e-5) << "seed " << seed;
  }
}

// Three rows over five replicas: two of them have nothing to do, from the first step on.
TEST(Replicas, FewerRowsThanReplicas) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  Plan run;
  run.replicas = 5;
  run.rows = 3;
  run.parts = 2;
  for (const int micro_batches : {1, 2}) {
    run.runtime.micro_batches = micro_batches;
    const auto together = train_replicas(graph, run);
    expect_same_bits(together);
    const Outcome alone = train_one(graph, run, 5);
    EXPECT_EQ(weights_digest(together[4].weights), weights_digest(alone.weights));
    EXPECT_NEAR(together[4].loss, alone.loss, 1e-6);
  }
}

TEST(Replicas, ConsumersSeeTheirOwnRows) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  Plan run;
  run.replicas = 5;
  run.rows = 3;
  auto ends = make_bus_ends(run.order, run.replicas);
  std::vector<std::int64_t> rows(run.replicas);
  std::vector<std::function<void()>> actions;
  for (std::size_t i = 0; i < run.replicas; ++i) {
    actions.push_back([&, i] {
      DistributedScheduler scheduler = make_scheduler(graph, run);
      const auto seen = std::make_shared<MemoryConsumer>();
      scheduler.bindConsumer(graph.consumers().front().name, seen);
      scheduler.join_replicas(std::move(ends[i]), reduction_of(run));
      EXPECT_EQ(scheduler.step().samples, 3);
      rows[i] = seen->batches().front().shape().front();
    });
  }
  EXPECT_THAT(at_the_same_time(actions), Each(""));
  EXPECT_THAT(rows, testing::ElementsAre(1, 1, 1, 0, 0));
}

/// The errors of two replicas, the second of which runs with other options or data.
std::vector<std::string> errors_of(const RuntimeOptions& second, float poison = 0,
                                   bool dies = false) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  auto ends = make_bus_ends(Reduction::Chain, 2);
  const Plan run;
  return at_the_same_time({[&] {
                             DistributedScheduler scheduler = make_scheduler(graph, run);
                             scheduler.join_replicas(std::move(ends[0]), reduction_of(run));
                             scheduler.fit(1);
                           },
                           [&] {
                             Plan own = run;
                             own.runtime = second;
                             DistributedScheduler scheduler = make_scheduler(graph, own);
                             scheduler.join_replicas(std::move(ends[1]), reduction_of(run));
                             if (poison != 0) {
                               for (auto& [name, tensor] : scheduler.parameters()) {
                                 tensor.mutable_values<float>()[0] = poison;
                               }
                             }
                             if (dies) {
                               scheduler.step();
                               return;
                             }
                             scheduler.fit(1);
                           }});
}

TEST(Replicas, ThatDoNotAgreeAreRefused) {
  RuntimeOptions other = test_runtime();
  other.optimizer.learning_rate = 0.5;
  EXPECT_THAT(errors_of(other), Each(HasSubstr("lr 0.5")));
  other = test_runtime();
  other.seed = 9;
  EXPECT_THAT(errors_of(other), Each(HasSubstr("seed 9")));
  EXPECT_THAT(errors_of(test_runtime(), 0.25F), Each(HasSubstr("weights")));
}

TEST(Replicas, OneThatGoesAwayStopsTheOther) {
  const auto errors = errors_of(test_runtime(), 0, true);
  EXPECT_THAT(errors[0], HasSubstr("rank 0 of 2, with rank 1"));
  EXPECT_EQ(errors[1], "");
}

// A loss that is not finite in one replica is an Error in all, at the same step; the weights stay,
// and all may go on.
TEST(Replicas, ALossThatIsNotFiniteStopsAllAndCanBePassed) {
  const HarmonicGraph graph = parse_harp(R"(
    producer x {2}; producer y {1}; consumer out;
    layer only linear(out=1);
    cycle { x -> only; only -> out; only <-(mse)- y; }
  )");
  auto ends = make_bus_ends(Reduction::Chain, 2);
  std::vector<std::string> digests(2);
  std::vector<std::function<void()>> actions;
  std::vector<std::string> failures(2);
  for (std::size_t i = 0; i < 2; ++i) {
    actions.push_back([&, i] {
      RuntimeOptions options;
      options.threads = 1;
      DistributedScheduler scheduler({graph}, {}, options);
      const float huge = std::numeric_limits<float>::infinity();
      const auto rows =
          std::make_shared<MemoryProducer>(Tensor::of<float>({4, 2}, {1, 2, 3, huge, 1, 2, 3, 4}));
      scheduler.bindProducer("x", std::make_shared<BatchProducer>(rows, 2));
      scheduler.bindProducer("y", std::make_shared<BatchProducer>(
                                      std::make_shared<MemoryProducer>(Tensor::zeros({4, 1})), 2));
      scheduler.join_replicas(std::move(ends[i]));
      const std::string before = scheduler.weights_digest();
      try {
        scheduler.step();
      } catch (const Error& error) {
        failures[i] = error.what();
      }
      EXPECT_EQ(scheduler.weights_digest(), before);
      EXPECT_TRUE(scheduler.step().loss.has_value());
      digests[i] = scheduler.weights_digest();
    });
  }
  EXPECT_THAT(at_the_same_time(actions), Each(""));
  EXPECT_THAT(failures[0], HasSubstr("the loss of replica 1 is not finite at step 1"));
  EXPECT_THAT(failures[1], HasSubstr("the first values that are not finite come from"));
  EXPECT_EQ(digests[0], digests[1]);
}

TEST(Replicas, ASchedulerJoinsOnce) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  DistributedScheduler scheduler = make_scheduler(graph, {});
  EXPECT_THROW(scheduler.join_replicas({0, 2, {}}), Error);
  scheduler.join_replicas({});
  EXPECT_THROW(scheduler.join_replicas({}), Error);
  EXPECT_EQ(scheduler.step().samples, kTestBatch);
}

TEST(ReplicaShare, EveryMicroBatchHasOneOwner) {
  for (std::int64_t rows = 1; rows <= 12; ++rows) {
    for (std::size_t replicas = 1; replicas <= 6; ++replicas) {
      const NamedTensors data{{"x", Tensor::zeros({rows, 1})}};
      const SlicedBatch batch = slice_batch(data, rows, 2 * static_cast<std::int64_t>(replicas), 0);
      std::size_t next = 0;
      double weight = 0;
      for (std::size_t i = 0; i < replicas; ++i) {
        const ReplicaShare share = replica_share(batch, i, replicas);
        EXPECT_TRUE(share.idle() || share.first == next);
        next += share.count;
        weight += share.weight;
      }
      EXPECT_EQ(next, batch.micro_batches.size());
      EXPECT_NEAR(weight, 1.0, 1e-12);
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_schedule
