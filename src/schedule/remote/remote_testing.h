// For tests: a small training run, in one process and as parts that meet on this machine.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/data/shuffle_producer.h>
#include <harmonics/graph/partition.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/schedule/remote_scheduler.h>

#include "carriers_testing.h"
#include "port_testing.h"

namespace harmonics::inline in_schedule {

inline constexpr std::int64_t kTestRows = 44;  // five batches of eight and one of four
inline constexpr std::int64_t kTestBatch = 8;

/// Random rows for that producer, shuffled and in batches; classes for whole numbers.
inline ProducerPtr test_data(const ProducerNode& node, std::int64_t rows = kTestRows) {
  Shape shape = *node.shape;
  shape.insert(shape.begin(), rows);
  Tensor all = Tensor::empty(shape, node.dtype);
  Random random(5, node.name);
  if (node.dtype == DType::kInt64) {
    for (auto& value : all.mutable_values<std::int64_t>()) value = random.below(4);
  } else {
    for (auto& value : all.mutable_values<float>()) value = random.normal();
  }
  return std::make_shared<BatchProducer>(
      std::make_shared<ShuffleProducer>(std::make_shared<MemoryProducer>(all)), kTestBatch);
}

inline RuntimeOptions test_runtime() {
  RuntimeOptions options;
  options.threads = 1;
  options.micro_batches = 4;
  options.clip_norm = 0.5;
  options.optimizer.learning_rate = 0.01;
  return options;
}

inline RemoteOptions test_remote() {
  RemoteOptions options;
  options.runtime = test_runtime();
  options.first_contact = std::chrono::minutes(2);
  options.pipeline.deadline = std::chrono::minutes(2);
  return options;
}

/// The weights after `epochs` in one process.
inline NamedTensors train_alone(const HarmonicGraph& graph, std::int64_t epochs) {
  CycleRuntime runtime(graph, test_runtime());
  for (const ProducerNode& node : graph.producers())
    runtime.bindProducer(node.name, test_data(node));
  runtime.fit(epochs);
  return runtime.parameters();
}

using DataFor = std::function<ProducerPtr(const ProducerNode&)>;

/// A scheduler for one part: boundaries meet where `place` says, everything else is test data.
inline RemoteScheduler make_part(
    const HarmonicGraph& part, const RemoteBinding& place, const RemoteOptions& options,
    const DeploymentDescriptor& deploy = {},
    const DataFor& data = [](const ProducerNode& node) { return test_data(node); }) {
  std::vector<RemoteBinding> entering, leaving;
  const auto at_place = [&](const std::string& name) {
    RemoteBinding binding = place;
    binding.name = name;
    return binding;
  };
  for (const ProducerNode& node : part.producers()) {
    if (is_boundary_name(node.name)) entering.push_back(at_place(node.name));
  }
  for (const ConsumerNode& node : part.consumers()) {
    if (is_boundary_name(node.name)) leaving.push_back(at_place(node.name));
  }
  RemoteScheduler scheduler(part, entering, leaving, deploy, options);
  for (const ProducerNode& node : part.producers()) {
    if (!is_boundary_name(node.name)) scheduler.bindProducer(node.name, data(node));
  }
  return scheduler;
}

/// Runs the actions at the same time; what they throw, by action ("" for nothing).
inline std::vector<std::string> at_the_same_time(
    const std::vector<std::function<void()>>& actions) {
  std::vector<std::string> errors(actions.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        actions[i]();
      } catch (const std::exception& error) {
        errors[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace harmonics::inline in_schedule
