// Streams through parts with several copies: the rows of one process, each once, in their order.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include <harmonics/graph/zoo.h>

#include <error_testing.h>
#include <random_graph_testing.h>

#include "copies_testing.h"

namespace harmonics::inline in_schedule {
namespace {

/// What came out of all copies, by consumer and number of the batch.
struct Gathered {
  std::mutex mutex;
  std::map<std::string, std::map<std::int64_t, std::string>> rows;
  int doubled = 0;

  void add(const StreamedBatch& batch) {
    const std::lock_guard lock(mutex);
    for (const auto& [name, tensor] : batch.outputs) {
      if (!rows[name].emplace(batch.number, bits(tensor)).second) ++doubled;
    }
  }
  [[nodiscard]] Rows all() const {
    Rows all;
    for (const auto& [name, numbered] : rows) {
      std::int64_t next = 0;
      for (const auto& [number, text] : numbered) {
        EXPECT_EQ(number, next++);
        all[name].push_back(text);
      }
    }
    return all;
  }
};

/// Every copy on a thread of its own; `streams` one after the other over the same boundaries.
Rows stream_copies(const Trial& trial, const RemoteBinding& place, int streams = 1) {
  std::vector<Gathered> gathered(static_cast<std::size_t>(streams));
  std::vector<std::function<void()>> actions;
  for (std::size_t part = 0; part < trial.parts.size(); ++part) {
    for (std::size_t copy = 0; copy < trial.weights[part].size(); ++copy) {
      actions.push_back([&, part, copy] {
        const HarmonicGraph& graph = trial.parts[part];
        RemoteScheduler scheduler =
            make_copy(graph, copies_of(trial.parts, trial.weights, part, copy), place);
        const CopyTurns turns(trial.weights[part]);
        for (Gathered& one : gathered) {
          std::int64_t next = static_cast<std::int64_t>(turns.next_of(copy, 0));
          StreamOptions options = trial.options;
          options.on_batch = [&](const StreamedBatch& batch) {
            EXPECT_EQ(batch.number, next) << "copy " << copy << " of part " << part;
            next = static_cast<std::int64_t>(
                turns.next_of(copy, static_cast<std::uint64_t>(batch.number) + 1));
            one.add(batch);
          };
          static_cast<void>(scheduler.stream(data_of(graph, trial.data), {}, options));
        }
      });
    }
  }
  EXPECT_EQ(at_the_same_time(actions), std::vector<std::string>(actions.size()));
  for (const Gathered& one : gathered) {
    EXPECT_EQ(one.doubled, 0);
    EXPECT_EQ(one.all(), gathered.front().all());
  }
  return gathered.front().all();
}

TEST(CopiesStream, EveryTransportGivesTheRowsOfOneProcess) {
  const HarmonicGraph graph = two_outputs();
  const Rows expected = alone(graph);
  for (const auto& [transport, name] : kRemoteTransports) {
    if (!is_built(transport)) continue;
    EXPECT_EQ(stream_copies({partition_graph(graph, 3), {{1}, {2, 1}, {1}}}, somewhere(transport)),
              expected)
        << name;
  }
}

// First, last, next to each other, all of them; with a boundary that skips a part, and one part
// alone.
TEST(CopiesStream, AnyPartMayHaveThem) {
  const HarmonicGraph graph = two_outputs();
  const Rows expected = alone(graph);
  const std::vector<Weights> shapes = {{{2, 1}, {1}, {1}},        {{1}, {1}, {1, 1, 1}},
                                       {{1, 1}, {1, 2}, {1}},     {{1}, {3, 1}, {1, 2, 1}},
                                       {{1, 1}, {2, 1}, {1, 1}},  {{1, 3}, {1}},
                                       {{1, 1, 1, 1, 1, 1, 1, 1}}};
  for (const Weights& weights : shapes) {
    for (const std::size_t in_flight : {0, 1, 64}) {
      Trial trial{partition_graph(graph, weights.size()), weights};
      trial.options.in_flight = in_flight;
      EXPECT_EQ(stream_copies(trial, somewhere(RemoteTransport::SharedMemory)), expected)
          << weights.size() << " parts, " << in_flight << " in flight";
    }
  }
}

TEST(CopiesStream, RandomGraphsGiveTheRowsOfOneProcess) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Random random(seed, "copies");
    const HarmonicGraph graph = random_graph(seed);
    Trial trial{partition_graph(graph, 2 + seed % 3), {}};
    for (std::size_t part = 0; part < trial.parts.size(); ++part) {
      std::vector<std::uint32_t>& weights = trial.weights.emplace_back();
      for (std::int64_t i = 0, count = 1 + random.below(3); i < count; ++i) {
        weights.push_back(static_cast<std::uint32_t>(1 + random.below(3)));
      }
    }
    trial.options.in_flight = 1 + seed * 3;
    trial.options.measure = true;
    EXPECT_EQ(stream_copies(trial, somewhere(RemoteTransport::TCP)), alone(graph))
        << "seed " << seed;
  }
}

// The weight crosses the cut once, to every copy that needs it.
TEST(CopiesStream, ATiedWeightReachesEveryCopy) {
  const HarmonicGraph graph = parse_harp(R"(
    producer ids {6} int64;
    consumer out;
    layer embed embedding(rows=10, width=4);
    layer norm layer_norm;
    layer mix linear(4);
    layer head linear(10, bias=false, tie=embed.weight);
    cycle { ids -> embed -> norm -(tanh)-> mix -> head -> out; })");
  for (const Weights& weights : {Weights{{1}, {1, 1, 1}}, Weights{{1, 1}, {2, 1}}}) {
    EXPECT_EQ(stream_copies({cut_graph(graph, std::vector<std::size_t>{0, 2}), weights},
                            somewhere(RemoteTransport::SharedMemory), 2),
              alone(graph));
  }
}

// Copies that read data do not see all of it, and still know where the next stream begins.
TEST(CopiesStream, ASecondStreamFindsNothingLeftOnTheBoundaries) {
  const HarmonicGraph graph = two_outputs();
  EXPECT_EQ(stream_copies({partition_graph(graph, 3), {{2, 1, 1}, {1, 1}, {1}}},
                          somewhere(RemoteTransport::SharedMemory), 3),
            alone(graph));
}

TEST(CopiesStream, WhatWasDeliveredIsNotComputedAgain) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const std::vector<HarmonicGraph> parts = partition_graph(graph, 2);
  const Rows expected = alone(graph);
  Trial trial{parts, {{2, 1}, {1}}};
  trial.options.delivered = 4;
  std::mutex mutex;
  std::vector<std::int64_t> numbers;
  std::atomic<std::int64_t> batches = 0;
  std::vector<std::function<void()>> actions;
  const RemoteBinding place = somewhere(RemoteTransport::SharedMemory);
  for (const auto& [part, copy] : std::vector<std::pair<int, int>>{{0, 0}, {0, 1}, {1, 0}}) {
    actions.push_back([&, part, copy] {
      RemoteScheduler scheduler =
          make_copy(parts[part], copies_of(parts, trial.weights, part, copy), place);
      StreamOptions options = trial.options;
      options.on_batch = [&](const StreamedBatch& batch) {
        const std::lock_guard lock(mutex);
        if (part == 1) numbers.push_back(batch.number);
      };
      const StreamReport report = scheduler.stream(data_of(parts[part], plain_data), {}, options);
      if (part == 0) batches += report.parts.front().batches;
    });
  }
  EXPECT_EQ(at_the_same_time(actions), std::vector<std::string>(3));
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(batches, 2);
}

TEST(CopiesStream, AWishEndsAllCopies) {
  const HarmonicGraph graph = two_outputs();
  const std::vector<HarmonicGraph> parts = partition_graph(graph, 3);
  const Weights weights = {{1, 1}, {1, 1}, {1}};
  std::atomic<bool> stop = false;
  std::atomic<int> interrupted = 0;
  const RemoteBinding place = somewhere(RemoteTransport::SharedMemory);
  std::vector<std::function<void()>> actions;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (std::size_t copy = 0; copy < weights[part].size(); ++copy) {
      actions.push_back([&, part, copy] {
        RemoteScheduler scheduler =
            make_copy(parts[part], copies_of(parts, weights, part, copy), place);
        StreamOptions options;
        options.stop = &stop;
        options.on_batch = [&](const StreamedBatch&) { stop = true; };
        const StreamReport report = scheduler.stream(
            data_of(parts[part],
                    [](const ProducerNode& node) { return test_data(node, 4000 * kTestBatch); }),
            {}, options);
        if (report.interrupted) ++interrupted;
      });
    }
  }
  EXPECT_EQ(at_the_same_time(actions), std::vector<std::string>(5));
  EXPECT_EQ(interrupted, 5);
}

TEST(CopiesStream, WhatCannotBeIsRefused) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const std::vector<HarmonicGraph> parts = partition_graph(graph, 2);
  RemoteOptions options = test_remote();
  options.copies.turns = CopyTurns({1, 1});
  options.copies.copy = 2;
  expect_error(ErrorCode::kInvalidArgument, "there is no copy 2",
               [&] { static_cast<void>(RemoteScheduler(parts[0], {}, {}, {}, options)); });
  options.copies.copy = 1;
  options.runtime.secure.on = true;
  expect_error(ErrorCode::kUnimplemented, "cannot be secure",
               [&] { static_cast<void>(RemoteScheduler(parts[0], {}, {}, {}, options)); });
  RemoteScheduler scheduler =
      make_copy(parts[0], copies_of(parts, {{1, 1}, {1}}, 0, 0), somewhere(RemoteTransport::TCP));
  for (const auto& [name, data] : data_of(parts[0], plain_data)) scheduler.bindProducer(name, data);
  expect_error(ErrorCode::kFailedPrecondition, "that they learn",
               [&] { static_cast<void>(scheduler.fit(1)); });
}

}  // namespace
}  // namespace harmonics::inline in_schedule
