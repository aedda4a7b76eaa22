#include <harmonics/schedule/remote_scheduler.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <harmonics/base/format.h>
#include <harmonics/data/memory_consumer.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/schedule/replica_scheduler.h>
#include <harmonics/transport/hosts.h>

#include <error_testing.h>
#include <random_graph_testing.h>
#include <temporary_folder_testing.h>

#include "remote_testing.h"

namespace harmonics::inline in_schedule {
namespace {

std::vector<std::string> no_errors(std::size_t count) { return std::vector<std::string>(count); }

/// A run of its own: boundary names of shared memory and ports never meet those of another test.
RemoteBinding place(RemoteTransport transport, bool compress = false) {
  RemoteBinding binding;
  binding.host = "127.0.0.1";
  binding.port = reserved_port();
  binding.transport = transport;
  binding.compress = compress;
  return binding;
}

/// The weights of all parts after `epochs`, each part on a thread of its own.
NamedTensors train_apart(const HarmonicGraph& graph, std::size_t count, std::int64_t epochs,
                         const RemoteBinding& where, const RemoteOptions& options) {
  const std::vector<HarmonicGraph> parts = partition_graph(graph, count);
  std::vector<NamedTensors> weights(count);
  std::vector<std::function<void()>> actions;
  for (std::size_t i = 0; i < count; ++i) {
    actions.push_back([&, i] {
      RemoteScheduler scheduler = make_part(parts[i], where, options);
      const FitReport report = scheduler.fit(epochs);
      EXPECT_EQ(report.steps, epochs * 6) << "part " << i;
      EXPECT_EQ(report.last_epoch.samples, kTestRows) << "part " << i;
      weights[i] = scheduler.parameters();
    });
  }
  EXPECT_EQ(at_the_same_time(actions), no_errors(count));
  NamedTensors all;
  for (NamedTensors& part : weights) all.merge(part);
  return all;
}

TEST(RemoteScheduler, TwoAndThreePartsLearnWhatOneProcessLearns) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const std::string alone = weights_digest(train_alone(graph, 2));
  for (const RemoteTransport transport : {RemoteTransport::TCP, RemoteTransport::SharedMemory}) {
    for (const bool compress : {false, true}) {
      for (const std::size_t count : {2, 3}) {
        const NamedTensors apart =
            train_apart(graph, count, 2, place(transport, compress), test_remote());
        EXPECT_EQ(weights_digest(apart), alone)
            << transport_name(transport) << (compress ? ", compressed, " : ", ") << count;
      }
    }
  }
}

TEST(RemoteScheduler, ConvolutionsAndAttentionLearnWhatOneProcessLearns) {
  for (const char* name : {"lenet-digits", "transformer-small"}) {
    const HarmonicGraph graph = zoo_graph(name);
    const std::size_t count = std::min<std::size_t>(6, graph.layers().size());
    const NamedTensors apart =
        train_apart(graph, count, 1, place(RemoteTransport::SharedMemory, true), test_remote());
    EXPECT_EQ(weights_digest(apart), weights_digest(train_alone(graph, 1)))
        << name << " in " << count << " parts";
  }
}

// The tensor goes from the first part to the last and its gradient back, past those between; what
// only computes gets it too, before and after training.
TEST(RemoteScheduler, ATieAcrossProcessesComputesAndLearnsWhatOneProcessDoes) {
  const HarmonicGraph graph = parse_harp(R"(
    producer ids {6} int64; producer next {6} int64; consumer out;
    layer embed embedding(rows=10, width=4); layer norm layer_norm; layer mix linear(4);
    layer head linear(10, bias=false, tie=embed.weight);
    cycle { ids -> embed -> norm -(tanh)-> mix -> head -> out; head <-(next_token)- next; })");
  const NamedTensors rows = {{"ids", Tensor::zeros({3, 6}, DType::kInt64)}};
  CycleRuntime alone(graph, test_runtime());
  for (const ProducerNode& node : graph.producers()) alone.bindProducer(node.name, test_data(node));
  const std::string before = weights_digest(alone.infer(rows));
  alone.fit(2);
  const std::string after = weights_digest(alone.infer(rows));
  for (const std::size_t count : {2, 3, 4}) {
    const RemoteBinding where = place(RemoteTransport::TCP, count == 3);
    const std::vector<HarmonicGraph> parts = partition_graph(graph, count);
    std::vector<NamedTensors> first(count), last(count), weights(count);
    std::vector<std::function<void()>> actions;
    for (std::size_t i = 0; i < count; ++i) {
      actions.push_back([&, i] {
        RemoteScheduler scheduler = make_part(parts[i], where, test_remote());
        const NamedTensors own = i == 0 ? rows : NamedTensors();
        for (int round = 0; round < 2; ++round) first[i] = scheduler.infer(own);
        scheduler.fit(2);
        for (int round = 0; round < 2; ++round) last[i] = scheduler.infer(own);
        weights[i] = scheduler.parameters();
      });
    }
    EXPECT_EQ(at_the_same_time(actions), no_errors(count));
    EXPECT_EQ(weights_digest(first.back()), before) << count;
    EXPECT_EQ(weights_digest(last.back()), after) << count;
    NamedTensors all;
    for (NamedTensors& part : weights) all.merge(part);
    EXPECT_EQ(weights_digest(all), weights_digest(alone.parameters())) << count;
  }
}

TEST(RemoteScheduler, EveryPipelineOrderLearnsTheSame) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const std::string alone = weights_digest(train_alone(graph, 1));
  for (const PipelineOrder order : {PipelineOrder::Sequential, PipelineOrder::GPipe}) {
    RemoteOptions options = test_remote();
    options.pipeline.order = order;
    EXPECT_EQ(weights_digest(train_apart(graph, 3, 1, place(RemoteTransport::TCP), options)), alone)
        << pipeline_order_name(order);
  }
}

// Skips over several parts, parts that feed nobody, raw data that crosses, batch norm and dropout.
TEST(RemoteScheduler, RandomGraphsLearnWhatOneProcessLearns) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const HarmonicGraph graph = random_graph(seed);
    const std::size_t count = 2 + seed % 5;
    const NamedTensors apart =
        train_apart(graph, count, 1, place(RemoteTransport::TCP), test_remote());
    ASSERT_EQ(weights_digest(apart), weights_digest(train_alone(graph, 1)))
        << "seed " << seed << ", " << count << " parts";
  }
}

TEST(RemoteScheduler, ASchedulerThatWasMovedFromSaysSo) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const auto parts = partition_graph(graph, 2);
  const auto says_so = [](const auto& use) {
    expect_error(ErrorCode::kFailedPrecondition, "was moved from", use);
  };
  RemoteScheduler part(parts[0], {}, {});
  const RemoteScheduler part_now = std::move(part);
  says_so([&] { part.step(); });
  says_so([&] { static_cast<void>(part.parameters()); });
  DistributedScheduler whole(parts);
  DistributedScheduler whole_now(parts);
  whole_now = std::move(whole);
  says_so([&] { whole.step(); });
  says_so([&] { static_cast<void>(whole.part_count()); });
  ReplicaScheduler replicas({graph}, {.replicas = 2});
  const ReplicaScheduler replicas_now = std::move(replicas);
  says_so([&] { replicas.fit(1); });
  says_so([&] { static_cast<void>(replicas.replica_count()); });
}

// The program starts itself once more and runs the second part there.
constexpr const char* kChildPlace = "HARMONICS_TEST_REMOTE_PLACE";
constexpr const char* kChildResult = "HARMONICS_TEST_REMOTE_RESULT";

TEST(RemoteScheduler, DISABLED_SecondProcess) {
  const char* where = std::getenv(kChildPlace);
  ASSERT_NE(where, nullptr);
  const auto parts = partition_graph(zoo_graph("digits-mlp"), 2);
  RemoteScheduler scheduler = make_part(parts[1], parse_binding(where), test_remote());
  scheduler.fit(2);
  std::ofstream(std::getenv(kChildResult)) << weights_digest(scheduler.parameters());
}

class TwoProcesses : public testing::TestWithParam<RemoteTransport> {};

TEST_P(TwoProcesses, LearnWhatOneProcessLearns) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const auto parts = partition_graph(graph, 2);
  RemoteBinding where = place(GetParam());
  where.name = "anything";
  const TemporaryFolder folder;
  const std::filesystem::path result = folder / "digest";
  const std::string command = format(
      "{}='{}' {}='{}' '{}' --gtest_also_run_disabled_tests "
      "--gtest_filter=RemoteScheduler.DISABLED_SecondProcess >/dev/null",
      kChildPlace, binding_url(where), kChildResult, result.string(),
      std::filesystem::read_symlink("/proc/self/exe").string());
  int status = -1;
  std::string first;
  const auto errors = at_the_same_time({[&] { status = std::system(command.c_str()); },
                                        [&] {
                                          RemoteScheduler part =
                                              make_part(parts[0], where, test_remote());
                                          part.fit(2);
                                          first = weights_digest(part.parameters());
                                        }});
  EXPECT_EQ(errors, no_errors(2));
  EXPECT_EQ(status, 0);
  std::ifstream file(result);
  std::string second;
  file >> second;

  std::vector<NamedTensors> expected(2);
  for (const auto& [name, tensor] : train_alone(graph, 2)) {
    const std::string layer = name.substr(0, name.find('.'));
    expected[parts[0].layer_index(layer) ? 0 : 1].emplace(name, tensor);
  }
  EXPECT_EQ(first, weights_digest(expected[0]));
  EXPECT_EQ(second, weights_digest(expected[1]));
}

INSTANTIATE_TEST_SUITE_P(Transports, TwoProcesses,
                         testing::Values(RemoteTransport::TCP, RemoteTransport::SharedMemory),
                         [](const auto& info) { return std::string(transport_name(info.param)); });

// Seed 000: the part in the middle has a producer "output" and a consumer "input".
TEST(RemoteScheduler, TheSeedsSnippetRunsBetweenTwoNeighbours) {
  set_host_alias("hostA", "127.0.0.1");
  set_host_alias("hostB", "127.0.0.1");
  const std::uint16_t port_a = reserved_port();
  const std::uint16_t port_b = reserved_port();
  const HarmonicGraph first = parse_harp(
      "harmonic first { producer x {3}; layer a linear(4); consumer output {4};"
      " cycle { x -> a -> output; } }");
  const HarmonicGraph part = parse_harp(
      "harmonic middle { producer output {4}; layer b linear(5); consumer input {5};"
      " cycle { output -(relu)-> b -> input; } }");
  const HarmonicGraph last = parse_harp(
      "harmonic last { producer input {5}; layer c linear(2); consumer y {2};"
      " cycle { input -> c -> y; } }");
  const auto received = std::make_shared<MemoryConsumer>();
  const ProducerNode& x = first.producers().front();
  const auto errors = at_the_same_time(
      {[&] {
         RemoteScheduler sched(first, {}, {{"output", "hostA", port_a}});
         sched.bindProducer("x", test_data(x));
         EXPECT_EQ(sched.fit(1).last_epoch.samples, kTestRows);
       },
       [&] {
         std::vector<RemoteBinding> prod = {{"output", "hostA", port_a}};
         std::vector<RemoteBinding> cons = {
             {"input", "hostB", port_b, RemoteTransport::TCP, true, 0}};  // compress tensors
         RemoteScheduler sched(part, prod, cons);
         EXPECT_EQ(sched.fit(1).last_epoch.samples, kTestRows);
       },
       [&] {
         RemoteScheduler sched(last, {{"input", "hostB", port_b}}, {});
         sched.bindConsumer("y", received);
         sched.fit(1);
       }});
  EXPECT_EQ(errors, no_errors(3));

  DistributedScheduler here({first, part, last});
  const auto expected = std::make_shared<MemoryConsumer>();
  here.bindProducer("x", test_data(x));
  here.bindConsumer("y", expected);
  here.fit(1);
  EXPECT_EQ(weights_digest({{"y", received->rows()}}), weights_digest({{"y", expected->rows()}}));
}

std::string message_of(const std::function<void()>& action) {
  return at_the_same_time({action}).front();
}

TEST(RemoteScheduler, APeerThatNeverComesIsAnErrorThatNamesTheBoundary) {
  const auto parts = partition_graph(zoo_graph("digits-mlp"), 2);
  const std::string boundary = parts[0].consumers().front().name;
  RemoteOptions options = test_remote();
  options.first_contact = std::chrono::milliseconds(50);
  for (const RemoteTransport transport : {RemoteTransport::TCP, RemoteTransport::SharedMemory}) {
    const std::string text = message_of([&] {
      RemoteScheduler scheduler = make_part(parts[1], place(transport), options);
      try {
        scheduler.step();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
        EXPECT_NE(message_of([&] { scheduler.step(); }).find("has stopped"), std::string::npos);
        throw;
      }
    });
    EXPECT_NE(text.find(boundary), std::string::npos) << text;
    EXPECT_NE(text.find("127.0.0.1"), std::string::npos) << "the peer: " << text;
    EXPECT_NE(text.find("0.05 s"), std::string::npos) << "the deadline: " << text;
  }
}

TEST(RemoteScheduler, AnErrorInOnePartEndsTheRunInAll) {
  const auto parts = partition_graph(zoo_graph("digits-mlp"), 3);
  const RemoteBinding where = place(RemoteTransport::TCP);
  std::vector<std::function<void()>> actions;
  std::string again;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    actions.push_back([&, i] {
      RemoteScheduler scheduler = make_part(parts[i], where, test_remote());
      FitOptions options;
      if (i == 1) {
        options.on_step = [](const StepReport& step) {
          if (step.step == 3) fail(ErrorCode::kDataLoss, "the middle part gives up");
        };
      }
      try {
        scheduler.fit(5, options);
      } catch (const Error&) {
        if (i == 1) again = message_of([&] { scheduler.step(); });
        EXPECT_FALSE(scheduler.parameters().empty());
        throw;
      }
    });
  }
  const auto errors = at_the_same_time(actions);
  EXPECT_EQ(errors[1], "the middle part gives up");
  EXPECT_NE(errors[0].find("boundary '"), std::string::npos) << errors[0];
  EXPECT_NE(errors[2].find("boundary '"), std::string::npos) << errors[2];
  EXPECT_NE(again.find("has stopped (the middle part gives up)"), std::string::npos) << again;
}

TEST(RemoteScheduler, SettingsThatDisagreeAreAnErrorThatNamesThem) {
  const auto parts = partition_graph(zoo_graph("digits-mlp"), 2);
  const RemoteBinding where = place(RemoteTransport::TCP);
  RemoteOptions other = test_remote();
  other.runtime.micro_batches = 2;
  const auto errors = at_the_same_time({[&] { make_part(parts[0], where, test_remote()).step(); },
                                        [&] { make_part(parts[1], where, other).step(); }});
  for (const std::string& text : errors) EXPECT_FALSE(text.empty());
  EXPECT_NE((errors[0] + errors[1]).find("the number of micro-batches is"), std::string::npos)
      << errors[0] << "\n"
      << errors[1];
}

TEST(RemoteScheduler, APartThatMeetsItselfIsAnError) {
  const auto parts = partition_graph(zoo_graph("digits-mlp"), 2);
  const RemoteBinding where = place(RemoteTransport::TCP);
  const auto meet = [&] { make_part(parts[0], where, test_remote()).step(); };
  for (const std::string& text : at_the_same_time({meet, meet})) {
    EXPECT_NE(text.find("start each part of the run once"), std::string::npos) << text;
  }
}

TEST(RemoteScheduler, DataOfUnequalLengthIsAnError) {
  const auto parts = partition_graph(zoo_graph("digits-mlp"), 2);
  const RemoteBinding where = place(RemoteTransport::TCP);
  const auto errors =
      at_the_same_time({[&] { make_part(parts[0], where, test_remote()).fit(1); },
                        [&] {
                          RemoteBinding enter = where;
                          std::vector<RemoteBinding> entering;
                          const ProducerNode* label = nullptr;
                          for (const ProducerNode& node : parts[1].producers()) {
                            if (is_boundary_name(node.name)) {
                              enter.name = node.name;
                              entering.push_back(enter);
                            } else {
                              label = &node;
                            }
                          }
                          RemoteScheduler scheduler(parts[1], entering, {}, {}, test_remote());
                          scheduler.bindProducer(label->name, test_data(*label, 2 * kTestBatch));
                          scheduler.fit(1);
                        }});
  EXPECT_NE(errors[1].find("must be equally long"), std::string::npos) << errors[1];
  EXPECT_FALSE(errors[0].empty());
}

TEST(RemoteScheduler, NamesAreCheckedAtOnceAndListed) {
  const auto parts = partition_graph(zoo_graph("digits-mlp"), 2);
  const RemoteBinding where = place(RemoteTransport::TCP);
  const std::string boundary = parts[0].consumers().front().name;
  RemoteBinding binding = where;
  binding.name = "nothing";
  EXPECT_NE(message_of([&] {
              RemoteScheduler(parts[0], {binding}, {});
            }).find("has no producer 'nothing'; it has: image"),
            std::string::npos);
  binding.name = boundary;
  EXPECT_NE(message_of([&] {
              RemoteScheduler(parts[0], {}, {binding, binding});
            }).find("is bound already; bound are: " + boundary),
            std::string::npos);
  RemoteScheduler open(parts[0], {}, {});
  EXPECT_NE(message_of([&] { open.step(); }).find(boundary), std::string::npos);
  open.bindConsumer(binding);
  EXPECT_NE(message_of([&] { open.bindConsumer(binding); }).find("bound already"),
            std::string::npos);
  EXPECT_FALSE(open.parameters().empty());
  EXPECT_NE(message_of([&] { open.bindConsumer(binding); }).find("comes too late"),
            std::string::npos);
}

TEST(RemoteScheduler, TwoInOneThreadConstructWithoutWaiting) {
  const auto parts = partition_graph(zoo_graph("digits-mlp"), 2);
  const RemoteBinding where = place(RemoteTransport::TCP);
  const RemoteScheduler first = make_part(parts[0], where, test_remote());
  const RemoteScheduler second = make_part(parts[1], where, test_remote());
  EXPECT_EQ(first.graph().name(), parts[0].name());
}

}  // namespace
}  // namespace harmonics::inline in_schedule
