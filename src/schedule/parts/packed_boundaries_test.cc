// Boundaries with fewer bits: the same numbers whatever carries them, close to the exact ones,
// signed as they are sent, agreed on by both ends, and gone on with from a checkpoint.
#include <gtest/gtest.h>

#include <cmath>

#include <harmonics/custody/verify.h>
#include <harmonics/data/memory_consumer.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/transport/bus.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

#include "remote/remote_testing.h"

namespace harmonics::inline in_schedule {
namespace {

BoundaryPacking packing(int activations, int gradients = 0) {
  return {{activations, gradients}, {}};
}

PipelineOptions pipeline(const BoundaryPacking& bits,
                         PipelineOrder order = PipelineOrder::OneForwardOneBackward) {
  PipelineOptions options;
  options.order = order;
  options.packing = bits;
  return options;
}

void bind(Learner& learner, const HarmonicGraph& graph) {
  for (const ProducerNode& node : graph.producers()) {
    learner.bindProducer(node.name, test_data(node));
  }
}

NamedTensors train_here(const std::vector<HarmonicGraph>& parts, const HarmonicGraph& graph,
                        const PipelineOptions& options) {
  DistributedScheduler scheduler(parts, {}, test_runtime(), options);
  bind(scheduler, graph);
  scheduler.fit(2);
  return scheduler.parameters();
}

/// Each part a scheduler of its own, as in processes; `place` may say bits itself.
NamedTensors train_apart(const std::vector<HarmonicGraph>& parts, const RemoteBinding& place,
                         const BoundaryPacking& bits) {
  std::vector<NamedTensors> weights(parts.size());
  std::vector<std::function<void()>> actions;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    actions.push_back([&, i] {
      RemoteOptions options = test_remote();
      options.pipeline.packing = bits;
      RemoteScheduler scheduler = make_part(parts[i], place, options);
      scheduler.fit(2);
      weights[i] = scheduler.parameters();
    });
  }
  EXPECT_EQ(at_the_same_time(actions), std::vector<std::string>(parts.size()));
  NamedTensors all;
  for (NamedTensors& part : weights) all.merge(part);
  return all;
}

RemoteBinding place_for(RemoteTransport transport) {
  RemoteBinding binding;
  binding.host = "127.0.0.1";
  binding.port = reserved_port();
  binding.transport = transport;
  return binding;
}

double largest_difference(const NamedTensors& a, const NamedTensors& b) {
  double largest = 0;
  for (const auto& [name, tensor] : a) {
    const auto left = tensor.values<float>();
    const auto right = b.at(name).values<float>();
    for (std::size_t i = 0; i < left.size(); ++i) {
      largest = std::max<double>(largest, std::fabs(left[i] - right[i]));
    }
  }
  return largest;
}

TEST(PackedBoundaries, ThreadsAndProcessesLearnTheSameNumbers) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const auto parts = partition_graph(graph, 3);
  const std::string exact = weights_digest(train_alone(graph, 2));
  EXPECT_EQ(weights_digest(train_here(parts, graph, pipeline(packing(kExactBits, kExactBits)))),
            exact);
  for (const BoundaryPacking& bits : {packing(16), packing(8), packing(4, 8)}) {
    const std::string expected = weights_digest(train_here(parts, graph, pipeline(bits)));
    EXPECT_NE(expected, exact);
    for (const PipelineOrder order : {PipelineOrder::Sequential, PipelineOrder::GPipe}) {
      EXPECT_EQ(weights_digest(train_here(parts, graph, pipeline(bits, order))), expected)
          << pipeline_order_name(order);
    }
    for (const auto& [transport, name] : kRemoteTransports) {
      if (!is_built(transport)) continue;
      EXPECT_EQ(weights_digest(train_apart(parts, place_for(transport), bits)), expected) << name;
    }
  }
}

TEST(PackedBoundaries, AUrlSaysTheBits) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const auto parts = partition_graph(graph, 2);
  RemoteBinding place = place_for(RemoteTransport::TCP);
  place.bits = 8;
  place.gradient_bits = 16;
  place.compress = true;
  EXPECT_EQ(weights_digest(train_apart(parts, place, {})),
            weights_digest(train_here(parts, graph, pipeline(packing(8, 16)))));
}

TEST(PackedBoundaries, FewerBitsAreNearTheExactOnes) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const auto parts = partition_graph(graph, 3);
  const auto first_step = [&](const BoundaryPacking& bits) {
    DistributedScheduler scheduler(parts, {}, test_runtime(), pipeline(bits));
    bind(scheduler, graph);
    return scheduler.step();
  };
  const StepReport exact = first_step({});
  ASSERT_GT(exact.gradient_norm, 0);
  for (const auto& [bits, share] :
       {std::pair{packing(16), 0.01}, std::pair{packing(8), 0.02}, std::pair{packing(8, 8), 0.02},
        std::pair{packing(4, 4), 0.3}}) {
    const StepReport step = first_step(bits);
    EXPECT_NE(step.loss, exact.loss);
    EXPECT_NEAR(*step.loss, *exact.loss, share * *exact.loss);
    EXPECT_NEAR(step.gradient_norm, exact.gradient_norm, 2 * share * exact.gradient_norm);
  }
}

NamedTensors streamed(Learner& learner, const HarmonicGraph& graph, StreamReport& report) {
  NamedProducers producers;
  for (const ProducerNode& node : graph.producers()) {
    if (node.name != "label") producers.emplace(node.name, test_data(node));
  }
  const std::string name = graph.consumers().front().name;
  const auto rows = std::make_shared<MemoryConsumer>();
  report = learner.stream(producers, {{name, rows}});
  return {{name, rows->rows()}};
}

TEST(PackedBoundaries, AStreamSendsAQuarterAndARowDoesNotDependOnItsBatch) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const auto parts = partition_graph(graph, 2);
  StreamReport exact_report, report;
  DistributedScheduler exact(parts, {}, test_runtime());
  const NamedTensors whole = streamed(exact, graph, exact_report);
  DistributedScheduler packed(parts, {}, test_runtime(), pipeline(packing(8)));
  const NamedTensors rows = streamed(packed, graph, report);
  EXPECT_NE(weights_digest(rows), weights_digest(whole));
  EXPECT_LT(largest_difference(rows, whole), 0.05);
  EXPECT_LT(report.parts[0].bytes_sent, exact_report.parts[0].bytes_sent / 2);

  // One batch at a time, and all rows in one: what one batch alone gives, too.
  NamedTensors batch;
  for (const ProducerNode& node : graph.producers()) {
    if (node.name == "label") continue;
    Shape shape = *node.shape;
    shape.insert(shape.begin(), 6);
    Tensor data = Tensor::empty(shape);
    Random random(3, node.name);
    for (float& value : data.mutable_values<float>()) value = random.normal();
    batch.emplace(node.name, data);
  }
  const NamedTensors six = packed.infer(batch);
  for (std::int64_t row = 0; row < 6; ++row) {
    NamedTensors one;
    for (const auto& [name, tensor] : batch) one.emplace(name, tensor.slice(row, row + 1));
    for (const auto& [name, tensor] : packed.infer(one)) {
      EXPECT_LT(largest_difference({{name, tensor}}, {{name, six.at(name).slice(row, row + 1)}}),
                1e-5);
    }
  }
}

TEST(PackedBoundaries, EndsThatDisagreeSaySo) {
  const auto parts = partition_graph(zoo_graph("digits-mlp"), 2);
  for (const auto& [other, text] :
       {std::pair{packing(16), "activations have 8 bits in part 'digits_mlp_0' and 16 in part"},
        std::pair{packing(8, 8), "gradients have 32 bits in part 'digits_mlp_0' and 8 in part"},
        std::pair{packing(0), "activations have 8 bits in part 'digits_mlp_0' and 32 in part"}}) {
    const RemoteBinding place = place_for(RemoteTransport::TCP);
    std::vector<std::function<void()>> actions;
    for (std::size_t i = 0; i < 2; ++i) {
      actions.push_back([&, i] {
        RemoteOptions options = test_remote();
        options.pipeline.packing = i == 0 ? packing(8) : other;
        RemoteScheduler scheduler = make_part(parts[i], place, options);
        scheduler.fit(1);
      });
    }
    const std::vector<std::string> errors = at_the_same_time(actions);
    for (const std::string& error : errors) EXPECT_NE(error.find(text), std::string::npos) << error;
  }
}

TEST(PackedBoundaries, WrongBitsAndNamesAreRefused) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const auto parts = partition_graph(graph, 2);
  const auto starts = [&](const BoundaryPacking& bits) {
    DistributedScheduler scheduler(parts, {}, test_runtime(), pipeline(bits));
    bind(scheduler, graph);
    scheduler.step();
  };
  expect_error(ErrorCode::kInvalidArgument, "choose one of 32, 16, 8, 4",
               [&] { starts(packing(12)); });
  expect_error(ErrorCode::kNotFound, "boundary 'nobody@1'", [&] {
    starts({{}, {{"nobody@1", {8, 0}}}});
  });
}

TEST(PackedBoundaries, WhatIsSignedIsWhatIsSent) {
  const TemporaryFolder folder;
  SigningKey::make("alice").save(folder / "keys");
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const auto parts = partition_graph(graph, 2);
  RuntimeOptions runtime = test_runtime();
  runtime.secure.key = "alice";
  runtime.secure.keys = folder / "keys";
  runtime.secure.chain = folder / "run.chain";
  DeploymentDescriptor deploy;
  deploy.backend = Backend::CPU;
  deploy.secure = true;
  DistributedScheduler scheduler(parts, deploy, runtime, pipeline(packing(8, 8)));
  bind(scheduler, graph);
  scheduler.fit(2);
  EXPECT_EQ(scheduler.weights_digest(),
            weights_digest(train_here(parts, graph, pipeline(packing(8, 8)))));
  scheduler.close();
  const Chain chain = read_chain(folder / "run.chain");
  const VerifyReport report =
      verify_chain(std::vector<Chain>{chain}, Roster::load(folder / "keys"));
  EXPECT_TRUE(report.signers_known);
  EXPECT_GT(report.links, 0u);
}

// What packing has taken from gradients is not kept in checkpoints: a run forgets it when it saves,
// so that one which goes on from there makes the same steps.
TEST(PackedBoundaries, ResumingMakesTheSameSteps) {
  const TemporaryFolder folder;
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const auto parts = partition_graph(graph, 2);
  const PipelineOptions options = pipeline(packing(8, 4));
  const auto saving = [&](const std::string& file) {
    FitOptions fit;
    fit.checkpoint = folder / file;
    fit.checkpoint_every = 4;
    return fit;
  };
  DistributedScheduler whole(parts, {}, test_runtime(), options);
  bind(whole, graph);
  whole.fit(2, saving("whole"));

  // Ends by itself in the second epoch, four steps after the last save.
  DistributedScheduler first(parts, {}, test_runtime(), options);
  bind(first, graph);
  std::atomic<bool> stop = false;
  FitOptions fit = saving("cut");
  fit.stop = &stop;
  fit.on_step = [&](const StepReport& step) { stop = step.step == 8; };
  EXPECT_TRUE(first.fit(2, fit).interrupted);
  DistributedScheduler second(parts, {}, test_runtime(), options);
  bind(second, graph);
  EXPECT_TRUE(second.resume(folder / "cut"));
  second.fit(1, saving("cut"));
  EXPECT_EQ(second.weights_digest(), whole.weights_digest());
  EXPECT_NE(second.weights_digest(),
            weights_digest(train_here(parts, graph, pipeline(packing(8)))));
}

// Token numbers and tied parameters cross as they are, whatever the bits.
TEST(PackedBoundaries, IntegersAndTiedParametersStayExact) {
  const HarmonicGraph graph = parse_harp(R"(
    producer ids {6} int64;
    producer next {6} int64;
    consumer out;
    layer embed embedding(rows=10, width=4);
    layer mix linear(4);
    layer twice embedding(rows=10, width=4);
    layer both add;
    layer head linear(10, bias=false, tie=embed.weight);
    cycle {
      ids -> embed -(tanh)-> mix;
      ids -> twice;
      mix, twice -> both -> head -> out;
      head <-(cross_entropy)- next;
    })");
  const auto parts = cut_graph(graph, std::vector<std::size_t>{0, 2, 4});
  bool has_ids = false;
  for (const ProducerNode& node : parts[1].producers()) {
    has_ids = has_ids || (is_boundary_name(node.name) && node.dtype == DType::kInt64);
  }
  ASSERT_TRUE(has_ids);
  NamedTensors batch;
  Tensor ids = Tensor::empty({5, 6}, DType::kInt64);
  Random random(1, "ids");
  for (auto& value : ids.mutable_values<std::int64_t>()) value = random.below(10);
  batch.emplace("ids", ids);
  const auto answer = [&](const BoundaryPacking& bits) {
    DistributedScheduler scheduler(parts, {}, test_runtime(), pipeline(bits));
    return scheduler.infer(batch);
  };
  const NamedTensors exact = answer({});
  const NamedTensors packed = answer(packing(8));
  // Numbers of tokens that were rounded, or a rounded table, would be far off.
  EXPECT_LT(largest_difference(exact, packed), 0.05);
  // All boundaries of floats but the parameter's named exact: nothing is packed then.
  BoundaryPacking others = packing(4);
  for (const HarmonicGraph& part : parts) {
    for (const ConsumerNode& node : part.consumers()) {
      if (is_boundary_name(node.name) && node.name.find("weight") == std::string::npos &&
          !node.name.starts_with("ids")) {
        others.named[node.name] = {kExactBits, 0};
      }
    }
  }
  EXPECT_EQ(weights_digest(answer(others)), weights_digest(exact));
}

}  // namespace
}  // namespace harmonics::inline in_schedule
