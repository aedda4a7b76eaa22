// Links are measured before the first batch, and a part's time on a core is counted.
#include "carrier_probe.h"

#include <gtest/gtest.h>

#include <harmonics/base/core_clock.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/zoo.h>

#include "remote/remote_testing.h"

namespace harmonics::inline in_schedule {
namespace {

NamedProducers own_data(const HarmonicGraph& part) {
  NamedProducers all;
  for (const ProducerNode& node : part.producers()) {
    if (!is_boundary_name(node.name)) all.emplace(node.name, test_data(node));
  }
  return all;
}

RemoteBinding loopback(RemoteTransport transport) {
  RemoteBinding binding;
  binding.host = "127.0.0.1";
  binding.port = reserved_port();
  binding.transport = transport;
  return binding;
}

struct Streamed {
  std::vector<PartFlow> flows;
  std::vector<std::string> errors;
};

/// All parts at the same time; `probes` by part.
Streamed stream_parts(const std::vector<HarmonicGraph>& parts, RemoteTransport transport,
                      const std::vector<bool>& probes) {
  const RemoteBinding place = loopback(transport);
  Streamed all{std::vector<PartFlow>(parts.size()), {}};
  std::vector<std::function<void()>> actions;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    actions.push_back([&, i] {
      RemoteScheduler scheduler = make_part(parts[i], place, test_remote());
      StreamOptions options;
      options.probe_carriers = probes[i];
      all.flows[i] = scheduler.stream(own_data(parts[i]), {}, options).parts.front();
    });
  }
  all.errors = at_the_same_time(actions);
  return all;
}

TEST(CarrierProbe, EveryTransportIsMeasuredBeforeTheFirstBatch) {
  const auto parts = partition_graph(zoo_graph("digits-mlp"), 3);
  for (const auto& [transport, name] : kRemoteTransports) {
    if (!is_built(transport)) continue;
    SCOPED_TRACE(name);
    const Streamed streamed = stream_parts(parts, transport, {true, true, true});
    EXPECT_EQ(streamed.errors, std::vector<std::string>(3));
    for (std::size_t i = 0; i < 3; ++i) {
      const PartFlow& flow = streamed.flows[i];
      EXPECT_EQ(flow.batches, 6);
      EXPECT_GT(flow.cpu.count(), 0);
      ASSERT_EQ(flow.carriers.size(), i < 2 ? 1u : 0u);
      for (const CarrierMeasure& link : flow.carriers) {
        EXPECT_EQ(link.boundary.back(), static_cast<char>('1' + i));
        EXPECT_GT(link.latency.count(), 0);
        EXPECT_LT(link.latency, std::chrono::seconds(10));
        EXPECT_GT(link.bytes_per_s, 1e5);
      }
    }
  }
}

// The first part sends to both others, the last takes from both: nobody waits in a circle.
TEST(CarrierProbe, BoundariesThatSkipPartsAreMeasuredToo) {
  const HarmonicGraph graph = parse_harp(R"(
    producer image {64};
    consumer late;
    layer a linear(32);
    layer b linear(32);
    layer c linear(32);
    layer s add;
    layer d linear(10);
    cycle { image -(relu)-> a -(relu)-> b -> c; a, c -> s -> d -> late; })");
  const auto parts = partition_graph(graph, 3);
  const Streamed streamed = stream_parts(parts, RemoteTransport::TCP, {true, true, true});
  EXPECT_EQ(streamed.errors, std::vector<std::string>(3));
  std::size_t links = 0;
  for (const PartFlow& flow : streamed.flows) links += flow.carriers.size();
  EXPECT_GT(links, 2u);
}

TEST(CarrierProbe, APartThatDoesNotTakePartIsAnErrorAtOnce) {
  const auto parts = partition_graph(zoo_graph("digits-mlp"), 2);
  for (const bool first : {true, false}) {
    const Streamed streamed = stream_parts(parts, RemoteTransport::TCP, {first, !first});
    EXPECT_NE(streamed.errors[1], "");
    EXPECT_NE(streamed.errors[1].find(first ? "out of step" : "give all parts the same plan"),
              std::string::npos)
        << streamed.errors[1];
  }
}

TEST(CoreClock, CountsComputingAndNotWaiting) {
  const CoreClock clock;
  const CoreTimes before = clock.now();
  volatile double sum = 0;
  while (clock.now().cpu - before.cpu < std::chrono::milliseconds(20)) sum = sum + 1;
  const CoreTimes computed = clock.now();
  EXPECT_GE(computed.cpu - before.cpu, std::chrono::milliseconds(20));
  EXPECT_GE(computed.for_core, before.for_core);
  // While another thread computes, this one waits.
  std::thread([] {
    const CoreClock own;
    volatile double sum = 0;
    while (own.now().cpu < std::chrono::milliseconds(50)) sum = sum + 1;
  }).join();
  EXPECT_LT(clock.now().cpu - computed.cpu, std::chrono::milliseconds(25));
}

}  // namespace
}  // namespace harmonics::inline in_schedule
