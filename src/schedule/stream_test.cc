// Streams of inference through every scheduler: each batch once, in order, the bits of one process.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include <harmonics/data/memory_consumer.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/schedule/distributed_scheduler.h>

#include <error_testing.h>
#include <random_graph_testing.h>

#include "remote/remote_testing.h"
#include "stream_testing.h"

namespace harmonics::inline in_schedule {
namespace {

RemoteScheduler part_without_data(const HarmonicGraph& part, const RemoteBinding& place,
                                  const RemoteOptions& options = test_remote()) {
  std::vector<RemoteBinding> entering, leaving;
  const auto at_place = [&](const std::string& name, std::vector<RemoteBinding>& ends) {
    if (!is_boundary_name(name)) return;
    ends.push_back(place);
    ends.back().name = name;
  };
  for (const ProducerNode& node : part.producers()) at_place(node.name, entering);
  for (const ConsumerNode& node : part.consumers()) at_place(node.name, leaving);
  return RemoteScheduler(part, entering, leaving, {}, options);
}

/// The rows of all parts, each on a thread of its own.
Rows stream_apart(const std::vector<HarmonicGraph>& parts, const RemoteBinding& place,
                  const StreamOptions& options, const DataOf& data = plain_data) {
  std::vector<Rows> rows(parts.size());
  std::vector<std::function<void()>> actions;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    actions.push_back([&, i] {
      RemoteScheduler scheduler = part_without_data(parts[i], place);
      static_cast<void>(
          scheduler.stream(data_of(parts[i], data), recorders(parts[i], rows[i]), options));
    });
  }
  EXPECT_EQ(at_the_same_time(actions), std::vector<std::string>(parts.size()));
  Rows all;
  for (Rows& part : rows) all.merge(part);
  return all;
}

TEST(Stream, ThreadsGiveWhatOneProcessGives) {
  for (const HarmonicGraph& graph : {zoo_graph("digits-mlp"), two_outputs()}) {
    const Rows expected = alone(graph);
    for (const std::size_t count : {1, 2, 3}) {
      for (const std::size_t in_flight : {0, 1, 5, 64}) {
        DistributedScheduler scheduler(partition_graph(graph, count), {}, test_runtime());
        Rows rows;
        std::int64_t next = 0;
        StreamOptions options;
        options.in_flight = in_flight;
        options.on_batch = [&](const StreamedBatch& batch) { EXPECT_EQ(batch.number, next++); };
        const NamedConsumers consumers = recorders(graph, rows);
        const StreamReport report =
            scheduler.stream(data_of(graph, plain_data), consumers, options);
        EXPECT_EQ(rows, expected) << count << " parts, " << in_flight << " in flight";
        EXPECT_EQ(report.batches, 6);
        EXPECT_EQ(report.rows, kTestRows);
        EXPECT_EQ(next, 6);
        EXPECT_FALSE(report.interrupted);
        ASSERT_EQ(report.parts.size(), count);
        for (const PartFlow& flow : report.parts) EXPECT_EQ(flow.batches, 6) << flow.part;
        EXPECT_EQ(report.parts.front().bytes_sent > 0, count > 1);
        for (const auto& [name, consumer] : consumers) {
          EXPECT_TRUE(static_cast<const Recorder&>(*consumer).finished()) << name;
        }
      }
    }
  }
}

TEST(Stream, ASecondStreamAndTrainingFindNothingLeftOnTheBoundaries) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  DistributedScheduler scheduler(partition_graph(graph, 3), {}, test_runtime());
  for (const ProducerNode& node : graph.producers()) {
    scheduler.bindProducer(node.name, test_data(node));
  }
  const Rows expected = alone(graph);
  for (int i = 0; i < 2; ++i) {
    Rows rows;
    static_cast<void>(scheduler.stream(data_of(graph, plain_data), recorders(graph, rows)));
    EXPECT_EQ(rows, expected);
  }
  EXPECT_TRUE(scheduler.trainer().row().optimizer_state().empty());
  scheduler.fit(1);
  EXPECT_EQ(scheduler.weights_digest(), weights_digest(train_alone(graph, 1)));
}

TEST(Stream, ProcessesOverEveryTransportGiveWhatOneProcessGives) {
  const HarmonicGraph graph = two_outputs();
  const Rows expected = alone(graph);
  for (const auto& [transport, name] : kRemoteTransports) {
    if (!is_built(transport)) continue;
    for (const std::size_t count : {2, 3}) {
      EXPECT_EQ(stream_apart(partition_graph(graph, count), somewhere(transport), {}), expected)
          << name << ", " << count << " parts";
    }
  }
}

TEST(Stream, RandomGraphsGiveWhatOneProcessGives) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const HarmonicGraph graph = random_graph(seed);
    StreamOptions options;
    options.in_flight = 1 + seed * 3;
    options.measure = true;  // their targets are bound
    const auto parts = partition_graph(graph, 2 + seed % 4);
    EXPECT_EQ(stream_apart(parts, somewhere(RemoteTransport::TCP), options), alone(graph))
        << "seed " << seed;
  }
}

constexpr std::int64_t kLengths[] = {9, 3, 12, 1, 7};

/// Batches of six rows but the last, which has two; each of another length.
class StreamedLengths final : public Producer {
 public:
  explicit StreamedLengths(const ProducerNode& node) : node_(node) {}

  [[nodiscard]] TensorSpec sample_spec() const override { return {*node_.shape, node_.dtype}; }
  [[nodiscard]] bool batched() const override { return true; }
  [[nodiscard]] std::optional<std::int64_t> size() const override { return std::size(kLengths); }
  [[nodiscard]] std::optional<std::int64_t> sample_count() const override { return 26; }
  void begin_epoch(const SampleOrder& order) override { position_ = {order, 0}; }
  [[nodiscard]] std::optional<Tensor> next() override {
    if (position_.delivered == std::ssize(kLengths)) return std::nullopt;
    const auto number = static_cast<std::size_t>(position_.delivered++);
    const std::int64_t length = node_.extents[0].at(kLengths[number]);
    Tensor batch = Tensor::empty({number + 1 == std::size(kLengths) ? 2 : 6, length}, node_.dtype);
    Random random(number, node_.name);
    for (auto& value : batch.mutable_values<std::int64_t>()) value = random.below(5);
    return batch;
  }
  [[nodiscard]] ProducerPosition position() const override { return position_; }

 private:
  const ProducerNode node_;
  ProducerPosition position_;
};

TEST(Stream, BatchesOfSeveralLengthsGiveWhatOneProcessGives) {
  const HarmonicGraph graph = parse_harp(R"(
    axis T <= 12;
    producer ids {T} int64;
    consumer tags;
    layer embed embedding(rows=20, width=8);
    layer mix attention(heads=2, causal=true);
    layer skip add;
    layer head linear(5);
    cycle { ids -> embed -> mix; mix, embed -> skip -> head -> tags; })");
  const DataOf lengths = [](const ProducerNode& node) {
    return std::make_shared<StreamedLengths>(node);
  };
  const Rows expected = alone(graph, lengths);
  ASSERT_EQ(expected.at("tags").size(), std::size(kLengths));
  for (const std::size_t count : {2, 3}) {
    const auto parts = partition_graph(graph, count);
    EXPECT_EQ(stream_apart(parts, somewhere(RemoteTransport::SharedMemory), {}, lengths), expected);
    DistributedScheduler scheduler(parts, {}, test_runtime());
    Rows rows;
    static_cast<void>(scheduler.stream(data_of(graph, lengths), recorders(graph, rows)));
    EXPECT_EQ(rows, expected);
  }
}

TEST(Stream, MeasuresWhatEvaluateMeasures) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  CycleRuntime runtime(graph, test_runtime());
  const Evaluation expected = runtime.evaluate(data_of(graph, plain_data));
  StreamOptions options;
  options.measure = true;
  for (const std::size_t count : {1, 3}) {
    DistributedScheduler scheduler(partition_graph(graph, count), {}, test_runtime());
    const StreamReport report = scheduler.stream(data_of(graph, plain_data), {}, options);
    EXPECT_EQ(report.taps.loss_sum / static_cast<double>(report.rows), expected.loss);
    EXPECT_EQ(report.taps.judged, kTestRows);
  }
  // Without targets there is nothing to measure by, but enough to compute.
  NamedProducers images = data_of(graph, plain_data);
  images.erase("label");
  EXPECT_EQ(runtime.stream(images, {}).rows, kTestRows);
  expect_error(ErrorCode::kFailedPrecondition, "label",
               [&] { static_cast<void>(runtime.stream(images, {}, options)); });
}

/// Counts how many batches were read.
class Counted final : public Producer {
 public:
  Counted(ProducerPtr inner, std::atomic<std::int64_t>& read) : inner_(inner), read_(read) {}
  [[nodiscard]] TensorSpec sample_spec() const override { return inner_->sample_spec(); }
  [[nodiscard]] bool batched() const override { return inner_->batched(); }
  [[nodiscard]] std::optional<std::int64_t> size() const override { return inner_->size(); }
  [[nodiscard]] std::optional<std::int64_t> sample_count() const override {
    return inner_->sample_count();
  }
  void begin_epoch(const SampleOrder& order) override { inner_->begin_epoch(order); }
  [[nodiscard]] std::optional<Tensor> next() override {
    std::optional<Tensor> batch = inner_->next();
    if (batch) ++read_;
    return batch;
  }
  [[nodiscard]] ProducerPosition position() const override { return inner_->position(); }

 private:
  const ProducerPtr inner_;
  std::atomic<std::int64_t>& read_;
};

// Whoever takes the results takes its time: what was read and has not come out is bounded.
TEST(Stream, NoMoreBatchesAreUnderWayThanWereAskedFor) {
  const HarmonicGraph graph = two_outputs();
  constexpr std::int64_t kRows = 40 * kTestBatch;
  for (const std::size_t in_flight : {3, 6, 12}) {
    std::atomic<std::int64_t> read = 0;
    std::int64_t most = 0, out = 0;
    StreamOptions options;
    options.in_flight = in_flight;
    options.on_batch = [&](const StreamedBatch&) {
      ++out;
      // Until the first part has read all that it may: only that ends this loop.
      for (std::int64_t seen = -1; seen != read.load(); std::this_thread::yield()) {
        seen = read.load();
        for (int i = 0; i < 200 && read.load() == seen; ++i) std::this_thread::yield();
      }
      most = std::max(most, read.load() - out);
    };
    DistributedScheduler scheduler(partition_graph(graph, 3), {}, test_runtime());
    const StreamReport report =
        scheduler.stream(data_of(graph,
                                 [&](const ProducerNode& node) {
                                   return std::make_shared<Counted>(test_data(node, kRows), read);
                                 }),
                         {}, options);
    EXPECT_EQ(report.batches, 40);
    // Each part may also hold one that it has computed and has no room to send.
    EXPECT_LE(most, static_cast<std::int64_t>(in_flight) + 3) << in_flight;
  }
}

TEST(Stream, AWishEndsItWithWhatIsUnderWay) {
  const HarmonicGraph graph = two_outputs();
  const Rows all = alone(graph);
  for (const std::size_t count : {1, 3}) {
    std::atomic<bool> stop = false;
    StreamOptions options;
    options.in_flight = 3;
    options.stop = &stop;
    options.on_batch = [&](const StreamedBatch&) { stop = true; };
    DistributedScheduler scheduler(partition_graph(graph, count), {}, test_runtime());
    Rows rows;
    const NamedConsumers consumers = recorders(graph, rows);
    const StreamReport report = scheduler.stream(data_of(graph, plain_data), consumers, options);
    EXPECT_TRUE(report.interrupted);
    EXPECT_GE(report.batches, 1);
    for (const auto& [name, got] : rows) {
      EXPECT_EQ(std::ssize(got), report.batches);
      EXPECT_TRUE(std::ranges::equal(got, std::span(all.at(name)).first(got.size()))) << name;
      EXPECT_FALSE(static_cast<const Recorder&>(*consumers.at(name)).finished());
    }
    // Nothing stays behind.
    Rows again;
    static_cast<void>(scheduler.stream(data_of(graph, plain_data), recorders(graph, again)));
    EXPECT_EQ(again, all);
  }
}

TEST(Stream, AConsumerThatFailsStopsAllPartsAndTheNextStreamGoesOn) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const Rows expected = alone(graph);
  for (const std::size_t count : {1, 3}) {
    DistributedScheduler scheduler(partition_graph(graph, count), {}, test_runtime());
    Rows rows;
    NamedConsumers consumers;
    const std::string name = graph.consumers().front().name;
    consumers.emplace(name, std::make_shared<Recorder>(rows[name], 3));
    expect_error(ErrorCode::kResourceExhausted, "the disk is full", [&] {
      static_cast<void>(scheduler.stream(data_of(graph, plain_data), consumers));
    });
    StreamOptions options;
    options.delivered = std::ssize(rows[name]);
    EXPECT_EQ(options.delivered, 3);
    static_cast<void>(scheduler.stream(data_of(graph, plain_data), consumers, options));
    EXPECT_EQ(rows, expected);
  }
}

// The consumers of two processes got a different number of batches before a part went away.
TEST(Stream, PartsGoOnWhereTheOneThatGotLeastLeftOff) {
  const HarmonicGraph graph = two_outputs();
  const std::vector<HarmonicGraph> parts = partition_graph(graph, 3);
  const Rows expected = alone(graph);
  Rows rows;  // the map is complete before threads look at it
  for (const auto& [name, all] : expected) rows[name];
  for (const std::int64_t breaks_at : {1, 4, 99}) {
    const RemoteBinding place = somewhere(RemoteTransport::TCP);
    std::vector<std::function<void()>> actions;
    for (const HarmonicGraph& part : parts) {
      actions.push_back([&] {
        NamedConsumers consumers;
        StreamOptions options;
        for (const ConsumerNode& node : part.consumers()) {
          if (is_boundary_name(node.name)) continue;
          std::vector<std::string>& got = rows.at(node.name);
          options.delivered = std::ssize(got);
          consumers.emplace(node.name,
                            std::make_shared<Recorder>(got, node.name == "late" ? breaks_at : -1));
        }
        RemoteScheduler scheduler = part_without_data(part, place);
        static_cast<void>(scheduler.stream(data_of(part, plain_data), consumers, options));
      });
    }
    const std::vector<std::string> errors = at_the_same_time(actions);
    EXPECT_EQ(std::ranges::count(errors, ""), breaks_at == 99 ? 3 : 0);
    EXPECT_EQ(std::ssize(rows.at("late")), breaks_at == 99 ? 6 : breaks_at);
  }
  EXPECT_EQ(rows, expected);
}

TEST(Stream, DataOfUnequalLengthIsAnErrorThatSaysSo) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  StreamOptions options;
  options.measure = true;
  const std::vector<HarmonicGraph> parts = partition_graph(graph, 2);
  for (const std::int64_t labels : {4 * kTestBatch, 6 * kTestBatch}) {
    const RemoteBinding place = somewhere(RemoteTransport::SharedMemory);
    std::vector<std::function<void()>> actions;
    for (const HarmonicGraph& part : parts) {
      actions.push_back([&] {
        RemoteScheduler scheduler = part_without_data(part, place);
        static_cast<void>(scheduler.stream(
            data_of(part,
                    [&](const ProducerNode& node) {
                      return test_data(node, node.name == "label" ? labels : 5 * kTestBatch);
                    }),
            {}, options));
      });
    }
    const std::vector<std::string> errors = at_the_same_time(actions);
    EXPECT_NE(errors[1].find("equally long"), std::string::npos) << errors[1];
    // The first part is done where it reads less; where it reads more, it loses the other.
    EXPECT_EQ(errors[0] != "", labels < 5 * kTestBatch) << errors[0];
  }
}

TEST(Stream, WhatMakesNoSenseIsAnError) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  DistributedScheduler scheduler(partition_graph(graph, 2), {}, test_runtime());
  const NamedProducers data = data_of(graph, plain_data);
  expect_error(ErrorCode::kFailedPrecondition, "image",
               [&] { static_cast<void>(scheduler.stream({}, {})); });
  expect_error(ErrorCode::kNotFound, "nobody", [&] {
    static_cast<void>(scheduler.stream(data, {{"nobody", std::make_shared<MemoryConsumer>()}}));
  });
  StreamOptions many;
  many.in_flight = kMaxBatchesInFlight + 1;
  expect_error(ErrorCode::kInvalidArgument, "in flight",
               [&] { static_cast<void>(scheduler.stream(data, {}, many)); });
}

}  // namespace
}  // namespace harmonics::inline in_schedule
