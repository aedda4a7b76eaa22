// The examples of docs/guides/data-parallel.md, run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/graph/zoo.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/schedule/parameter_client.h>
#include <harmonics/schedule/parameter_server.h>
#include <harmonics/schedule/replica_scheduler.h>

#include "remote/remote_testing.h"

namespace harmonics::inline in_schedule {
namespace {

using ::testing::Each;

/// Trains four replicas; the digest of their weights.
std::string train_replicas(const HarmonicGraph& graph, const NamedProducers& data) {
  ReplicaScheduler scheduler({graph}, {.replicas = 4});
  for (const auto& [name, producer] : data) scheduler.bindProducer(name, producer);
  scheduler.fit(2);
  return scheduler.weights_digest();
}

/// One of several replicas, which meet over the network.
std::string train_replica(const HarmonicGraph& graph, const NamedProducers& data, std::size_t rank,
                          const std::vector<RemoteBinding>& places) {
  DistributedScheduler scheduler({graph});
  for (const auto& [name, producer] : data) scheduler.bindProducer(name, producer);
  scheduler.join_replicas(make_remote_ends(Reduction::Chain, rank, places, "replicas"));
  scheduler.fit(2);
  return scheduler.weights_digest();
}

/// The server: waits until its workers have left; the number of updates.
std::int64_t serve(const HarmonicGraph& graph, const RemoteBinding& place, std::uint32_t workers) {
  ParameterServerOptions options;
  options.workers = workers;
  ParameterServer server(trained_parameters(graph, {}), place, options);
  server.wait_until_left(std::chrono::minutes(10));
  return server.version();
}

/// A worker: computes its share of one batch after another.
void work(const HarmonicGraph& graph, const RemoteBinding& place, std::uint32_t number,
          const std::vector<NamedTensors>& batches) {
  ParameterClientOptions options;
  options.worker = number;
  ParameterWorker worker(graph, {}, ParameterClient({place}, options));
  for (std::int64_t due = worker.pull(); due < std::ssize(batches); due = worker.pull()) {
    worker.push_share(batches[static_cast<std::size_t>(due)]);
  }
  worker.client().close();
}

NamedProducers data_for(const HarmonicGraph& graph) {
  NamedProducers data;
  for (const ProducerNode& node : graph.producers()) data.emplace(node.name, test_data(node));
  return data;
}

std::vector<RemoteBinding> places(std::size_t count) {
  RemoteBinding place;
  place.host = "127.0.0.1";
  place.port = reserved_port();
  return std::vector<RemoteBinding>(count, place);
}

TEST(DataParallelGuide, ReplicasOnThreadsAndOverTheNetworkLearnTheSame) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const std::string expected = train_replicas(graph, data_for(graph));
  const auto where = places(4);
  std::vector<std::string> digests(4);
  std::vector<std::function<void()>> actions;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    actions.push_back(
        [&, rank] { digests[rank] = train_replica(graph, data_for(graph), rank, where); });
  }
  EXPECT_THAT(at_the_same_time(actions), Each(""));
  EXPECT_THAT(digests, Each(expected));
}

TEST(DataParallelGuide, AServerAndItsWorkers) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  std::vector<NamedTensors> batches;
  NamedProducers data = data_for(graph);
  for (int i = 0; i < 4; ++i) {
    NamedTensors& batch = batches.emplace_back();
    for (const ProducerNode& node : graph.producers()) {
      const Tensor rows = *data.find(node.name)->second->next();
      Shape shape = *node.shape;
      shape.insert(shape.begin(), rows.shape().front());
      batch.emplace(node.name, rows.reshaped(shape));
    }
  }
  const RemoteBinding where = places(1).front();
  std::int64_t updates = 0;
  EXPECT_THAT(at_the_same_time({[&] { updates = serve(graph, where, 2); },
                                [&] { work(graph, where, 0, batches); },
                                [&] { work(graph, where, 1, batches); }}),
              Each(""));
  EXPECT_EQ(updates, 4);
}

}  // namespace
}  // namespace harmonics::inline in_schedule
