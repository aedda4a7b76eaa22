// The same answer at length: 200 steps of real networks, over everything that can carry a boundary,
// and through links that are cut a thousand times. A fixed slice of the combinations; all of them
// with HARMONICS_SOAK=1 in the environment (make soak).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include <harmonics/base/format.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/schedule/distributed_scheduler.h>

#include <campaign_testing.h>
#include <random_graph_testing.h>
#include <rough_proxy_testing.h>

#include "remote/remote_testing.h"

namespace harmonics::inline in_schedule {
namespace {

constexpr std::int64_t kSteps = 200;
constexpr std::int64_t kRows = kSteps * kTestBatch;

void bind_data(const HarmonicGraph& part, auto& scheduler) {
  for (const ProducerNode& node : part.producers()) {
    if (!is_boundary_name(node.name)) scheduler.bindProducer(node.name, test_data(node, kRows));
  }
}

/// The digest of 200 steps in one process.
std::string alone(const HarmonicGraph& graph) {
  CycleRuntime runtime(graph, test_runtime());
  bind_data(graph, runtime);
  EXPECT_EQ(runtime.fit(1).steps, kSteps);
  return weights_digest(runtime.parameters());
}

/// The same in parts of this process, joined by buses.
std::string over_bus(const HarmonicGraph& graph, std::size_t count, PipelineOrder order) {
  DistributedScheduler scheduler(partition_graph(graph, count), {}, test_runtime(), {order});
  bind_data(graph, scheduler);
  EXPECT_EQ(scheduler.fit(1).steps, kSteps);
  return weights_digest(scheduler.parameters());
}

/// Where each part meets its neighbours: the end that sends a boundary, and the one that takes it.
struct Meeting {
  std::function<RemoteBinding(const std::string&name)> sending, taking;
};

/// The same with every part a RemoteScheduler on a thread of its own.
std::string over_links(const HarmonicGraph& graph, std::size_t count, PipelineOrder order,
                       const Meeting& meeting) {
  const std::vector<HarmonicGraph> parts = partition_graph(graph, count);
  RemoteOptions options = test_remote();
  options.pipeline.order = order;
  options.transport.retry_first = std::chrono::milliseconds(1);
  options.transport.retry_longest = std::chrono::milliseconds(20);
  std::vector<NamedTensors> weights(count);
  std::vector<std::function<void()>> actions;
  for (std::size_t i = 0; i < count; ++i) {
    actions.push_back([&, i] {
      std::vector<RemoteBinding> entering, leaving;
      for (const ProducerNode& node : parts[i].producers()) {
        if (is_boundary_name(node.name)) entering.push_back(meeting.taking(node.name));
      }
      for (const ConsumerNode& node : parts[i].consumers()) {
        if (is_boundary_name(node.name)) leaving.push_back(meeting.sending(node.name));
      }
      RemoteScheduler scheduler(parts[i], entering, leaving, {}, options);
      bind_data(parts[i], scheduler);
      EXPECT_EQ(scheduler.fit(1).steps, kSteps) << "part " << i;
      weights[i] = scheduler.parameters();
    });
  }
  EXPECT_EQ(at_the_same_time(actions), std::vector<std::string>(count));
  NamedTensors all;
  for (NamedTensors& part : weights) all.merge(part);
  return weights_digest(all);
}

Meeting at_free_port(RemoteTransport transport, bool compress) {
  RemoteBinding place;
  place.host = "127.0.0.1";
  place.port = reserved_port();
  place.transport = transport;
  place.compress = compress;
  const auto named = [place](const std::string& name) {
    RemoteBinding binding = place;
    binding.name = name;
    return binding;
  };
  return {named, named};
}

TEST(Campaign, TwoHundredStepsOverEveryCarrierAreOneProcess) {
  constexpr PipelineOrder kOrders[] = {PipelineOrder::OneForwardOneBackward, PipelineOrder::GPipe,
                                       PipelineOrder::Sequential};
  // The slice takes every 17th combination, which meets all models, carriers, counts and orders.
  std::size_t number = 0, ran = 0;
  std::vector<Carrier> here = carriers();
  std::erase_if(here, [](const Carrier& carrier) { return !carrier.is_here(); });
  for (const char* name : {"digits-mlp", "lenet-digits", "transformer-small"}) {
    const HarmonicGraph graph = zoo_graph(name);
    const std::string expected = alone(graph);
    const std::size_t most = std::min<std::size_t>(6, graph.layers().size());
    for (std::size_t count = 2; count <= most; ++count) {
      for (const PipelineOrder order : kOrders) {
        for (const auto& [carrier, transport, compress] : here) {
          if (!soaks() && number++ % 17 != 0) continue;
          ++ran;
          const std::string digest =
              transport ? over_links(graph, count, order, at_free_port(*transport, compress))
                        : over_bus(graph, count, order);
          EXPECT_EQ(digest, expected) << name << " in " << count << " parts, "
                                      << pipeline_order_name(order) << " over " << carrier;
        }
      }
    }
  }
  RecordProperty("combinations", static_cast<int>(ran));
  std::printf("%zu combinations of %lld steps\n", ran, static_cast<long long>(kSteps));
}

TEST(Campaign, AThousandCutsChangeNothing) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  constexpr std::size_t kParts = 3;
  std::map<std::string, std::uint16_t> listening;
  std::map<std::string, std::unique_ptr<RoughProxy>> proxies;
  for (const HarmonicGraph& part : partition_graph(graph, kParts)) {
    for (const ConsumerNode& node : part.consumers()) {
      if (!is_boundary_name(node.name)) continue;
      const std::uint16_t port = reserved_port();
      listening[node.name] = port;
      // A micro-batch takes about a kilobyte each way.
      proxies[node.name] =
          std::make_unique<RoughProxy>(port, Roughness{11 + listening.size(), 6'000, 0});
    }
  }
  const auto at = [](const std::string& name, std::uint16_t port, bool listen) {
    RemoteBinding binding{name, "127.0.0.1", port};
    binding.listen = listen;
    return binding;
  };
  const Meeting through_proxies = {
      [&](const std::string& name) { return at(name, listening.at(name), true); },
      [&](const std::string& name) { return at(name, proxies.at(name)->port(), false); }};
  const std::string expected = alone(graph);
  EXPECT_EQ(over_links(graph, kParts, PipelineOrder::OneForwardOneBackward, through_proxies),
            expected);
  std::uint64_t cuts = 0;
  for (const auto& [name, proxy] : proxies) cuts += proxy->cuts();
  EXPECT_GE(cuts, 1000u);
  std::printf("%llu cuts\n", static_cast<unsigned long long>(cuts));
}

}  // namespace
}  // namespace harmonics::inline in_schedule
